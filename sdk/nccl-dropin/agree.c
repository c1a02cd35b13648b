/* Whether all ranks of a communicator may use Weir. Each tells every other, through an all-gather of the communicator itself, who
 * it is; all then come to the same answer from the same facts. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dropin.h"

typedef struct {
	uint32_t magic;
	uint32_t types; /* of the last round: what this rank has seen to be served */
	int32_t ok;
	own_rank self;
	who process;
} vote;
enum { MAGIC = 0x77656903, FIRST_MS = 60000, LATER_MS = 20 * 60000, LOOK_MS = 100, GONE_MS = 2000 };

typedef struct {
	served *of;
	ncclComm_t comm;
	int rank, size;
	device_room room;
	vote *votes;

	int64_t end, look; /* of what is waited for, and when to look after the peers */
	who *peers;        /* by rank, once all have said who they are */
	int gone;          /* 1 + a rank whose process has ended */
} meeting;

const char weir_nccl_ended[] = "the communicator has ended";

/* hold keeps other threads from ending a communicator; 0: one has. */
static int hold(served *s) {
	pthread_mutex_lock(&s->alive);
	if (__atomic_load_n(&s->comm, __ATOMIC_ACQUIRE)) return 1;
	pthread_mutex_unlock(&s->alive);
	return 0;
}
static void release(served *s) { pthread_mutex_unlock(&s->alive); }

/* late says why there is no use in waiting on. A rank that has ended may have left what the others wait for on its way to them. */
static const char *late(meeting *m) {
	static __thread char text[64];
	int64_t now = weir_nccl_now_ms();
	if (m->peers && !m->gone && now >= m->look) {
		m->look = now + LOOK_MS;
		for (int r = 0; r < m->size && !m->gone; r++)
			if (weir_nccl_has_ended(&m->peers[r], &m->peers[m->rank])) m->gone = r + 1;
		if (m->gone && m->end > now + GONE_MS) m->end = now + GONE_MS;
	}
	if (now <= m->end) return NULL;
	if (!m->gone) return "a rank did not answer in time";
	snprintf(text, sizeof text, "rank %d (process %d) has ended", m->gone - 1, m->peers[m->gone - 1].pid);
	return text;
}

/* await waits until a communicator that does not block has done what it was asked for. */
static const char *await(meeting *m) {
	for (const char *error;; usleep(500)) {
		if (!hold(m->of)) return weir_nccl_ended;
		ncclResult_t now = IN_PROGRESS, r = real_ncclCommGetAsyncError(m->comm, &now);
		release(m->of);
		if (r != SUCCESS || (now != SUCCESS && now != IN_PROGRESS)) return "the communicator has an error";
		if (now == SUCCESS) return NULL;
		if ((error = late(m))) return error;
	}
}

/* gather gives every rank's vote to every rank. */
static const char *gather(meeting *m, const vote *own, int64_t timeout_ms) {
	size_t at = m->rank * sizeof *own;
	m->end = weir_nccl_now_ms() + timeout_ms;
	memcpy((char *)m->room.host + at, own, sizeof *own);
	const char *error = weir_nccl_upload(&m->room, at, sizeof *own);
	if (error) return error;
	uint64_t memory = m->room.memory;
	if (!hold(m->of)) return weir_nccl_ended;
	ncclResult_t r = real_ncclAllGather((void *)(memory + at), (void *)memory, sizeof *own, NCCL_UINT8, m->comm, m->room.stream);
	release(m->of);
	if (r != SUCCESS && r != IN_PROGRESS) return "an all-gather of the communicator failed";
	if ((r == IN_PROGRESS && (error = await(m))) || (error = weir_nccl_download(&m->room))) return error;
	for (const char *why; (error = weir_nccl_done(&m->room)) == weir_nccl_not_yet; usleep(50)) {
		if (!__atomic_load_n(&m->of->comm, __ATOMIC_ACQUIRE)) return weir_nccl_ended;
		if ((why = late(m))) return why;
	}
	m->votes = m->room.host;
	return error ? error : await(m); /* or it has only left, because the communicator has ended or failed */
}

/* against finds what speaks against Weir in the facts that all have; why has room for 256 bytes. */
static int against(const meeting *m, char *why) {
	const vote *v = m->votes;
	for (int r = 0; r < m->size; r++)
		if (v[r].magic != MAGIC) return snprintf(why, 256, "rank %d has another version of this library", r);
	for (int r = 0; r < m->size; r++)
		if (!v[r].self.agent) return snprintf(why, 256, "rank %d: %s", r, v[r].self.why);
	for (int r = 1; r < m->size; r++)
		if (v[r].self.agent != v[0].self.agent || v[r].self.world != v[0].self.world)
			return snprintf(why, 256, "ranks 0 and %d have different agents, or are on different hosts", r);
	for (int r = 1; r < m->size; r++)
		for (int q = 0; q < r; q++) {
			if (v[r].self.process == v[q].self.process) return snprintf(why, 256, "ranks %d and %d are one process", q, r);
			if (v[r].self.rank >= 0 && v[r].self.rank == v[q].self.rank)
				return snprintf(why, 256, "ranks %d and %d are both rank %d of the agent (WEIR_RANK); for a program that starts its ranks itself use weir agent", q, r, v[r].self.rank);
		}
	return 0;
}

static int failed(const meeting *m, char *why) {
	for (int r = 0; r < m->size; r++)
		if (!m->votes[r].ok) return snprintf(why, 256, "rank %d: %.159s", r, m->votes[r].self.why);
	return 0;
}

static const struct {
	int nccl;
	weir_data_type weir;
	int size;
} usual[] = {{NCCL_FLOAT32, WEIR_FLOAT32, 4}, {NCCL_FLOAT16, WEIR_FLOAT16, 2}, {NCCL_BFLOAT16, WEIR_BFLOAT16, 2}};
enum { USUAL = sizeof usual / sizeof *usual };

/* served_types are those with a backend for every byte count, eager and captured. It is read from tables that are the same on
 * all ranks. */
static uint32_t served_types(weir_group group) {
	uint32_t types = 0;
	for (int i = 0; i < USUAL; i++) {
		int all = 1;
		for (int captured = 0; captured < 2; captured++)
			for (int64_t n = usual[i].size; all && n < (int64_t)1 << 40; n *= 2) {
				weir_class c = {WEIR_CUDA, usual[i].weir, WEIR_SUM, captured};
				char name[64];
				for (int64_t more = 0; more <= usual[i].size && all; more += usual[i].size)
					all = weir_nccl_weir.backend(group, &c, n + more, name, sizeof name) == WEIR_OK && name[0];
			}
		if (all) types |= 1u << usual[i].nccl;
	}
	return types;
}

static int refuse(vote *own, const char *why) {
	own->ok = 0;
	snprintf(own->self.why, sizeof own->self.why, "%s", why);
	return 0;
}

/* form makes the group and decides the usual classes. */
static int form(meeting *m, vote *own, weir_session session) {
	int32_t ranks[m->size];
	weir_group group;
	for (int r = 0; r < m->size; r++) ranks[r] = m->votes[r].self.rank;
	if (weir_nccl_weir.new_group(session, ranks, m->size, 0, &group) != WEIR_OK) return refuse(own, weir_nccl_weir.last_error());
	__atomic_store_n(&m->of->group, group, __ATOMIC_RELEASE); /* who ends the communicator meanwhile ends it too */
	weir_class classes[2 * USUAL];
	for (int i = 0; i < 2 * USUAL; i++) classes[i] = (weir_class){WEIR_CUDA, usual[i / 2].weir, WEIR_SUM, i % 2};
	for (int i = 0; i < 2 * USUAL; i++)
		if (weir_nccl_weir.warm(group, &classes[i], 1, 0) != WEIR_OK && weir_nccl_weir.group_error(group) != WEIR_OK)
			return refuse(own, weir_nccl_weir.last_error()); /* a class that nobody serves is no failure */
	own->types = served_types(group);
	return 1;
}

/* talk is the three rounds: who we are, who has joined as which rank, what is served. The error is one that ends the communicator. */
static const char *talk(meeting *m, uint32_t *types, char *why) {
	static __thread char text[256];
	vote own = {.magic = MAGIC, .ok = 1};
	who peers[m->size];
	weir_nccl_self(&own.self);
	weir_nccl_who(&own.process);
	const char *limit = getenv("WEIR_NCCL_TIMEOUT"), *error = gather(m, &own, limit && atoi(limit) > 0 ? atoi(limit) * 1000L : FIRST_MS);
	if (error) {
		snprintf(text, sizeof text, "%s: every rank of a communicator must have this library, or none (rank %d of %d, first all-gather)", error, m->rank, m->size);
		return error == weir_nccl_ended ? error : text;
	}
	if (against(m, why)) return NULL;
	for (int r = 0; r < m->size; r++) peers[r] = m->votes[r].process;
	m->peers = peers;
	weir_session session;
	own.self.rank = m->rank;
	const char *trouble = weir_nccl_joined(&session, &own.self.rank, m->room.device); /* a CUdevice is its ordinal */
	if (trouble) refuse(&own, trouble);
	if ((error = gather(m, &own, LATER_MS)) || failed(m, why)) return error;
	form(m, &own, session);
	if ((error = gather(m, &own, LATER_MS)) || failed(m, why)) return error;
	*types = ~0u;
	for (int r = 0; r < m->size; r++) *types &= m->votes[r].types;
	if (!*types) snprintf(why, 256, "no backend serves sums of float32, float16 or bfloat16; see weir status");
	return NULL;
}

static void tell(const meeting *m, uint32_t types, const char *why) {
	static int told;
	int version = 0;
	if (m->rank != 0 || (why[0] && __atomic_exchange_n(&told, 1, __ATOMIC_RELAXED))) return;
	real_ncclGetVersion(&version);
	if (why[0]) weir_nccl_say("NCCL %d of %s serves this communicator of %d ranks alone, because %s. Others are reported no more.", version, weir_nccl_real_path(), m->size, why);
	else weir_nccl_say("Weir %s serves sums of%s%s%s in this communicator of %d ranks, NCCL %d of %s the rest.", weir_nccl_weir.version(),
		types >> NCCL_FLOAT32 & 1 ? " float32" : "", types >> NCCL_FLOAT16 & 1 ? " float16" : "", types >> NCCL_BFLOAT16 & 1 ? " bfloat16" : "", m->size, version, weir_nccl_real_path());
}

/* ask has NCCL tell who this rank is, once it is ready to. */
static const char *ask(meeting *m) {
	m->end = INT64_MAX; /* NCCL's own wait for the peers is the program's to bound */
	const char *error = await(m);
	if (error) return error;
	if (!hold(m->of)) return weir_nccl_ended;
	if (real_ncclCommCount(m->comm, &m->size) != SUCCESS || real_ncclCommUserRank(m->comm, &m->rank) != SUCCESS || real_ncclCommCuDevice(m->comm, &m->room.device) != SUCCESS)
		error = "the communicator does not tell its ranks";
	release(m->of);
	return error;
}

const char *weir_nccl_agree(served *s) {
	meeting m = {.of = s, .comm = s->comm};
	const char *error = ask(&m);
	if (error || m.size < 2) return error;
	char why[256] = "";
	uint32_t types = 0;
	error = weir_nccl_enter(&m.room, m.room.device, m.size * sizeof(vote));
	if (!error) error = talk(&m, &types, why);
	if (!error) tell(&m, types, why);
	weir_nccl_leave(&m.room, !error);
	if (!error && !why[0]) {
		__atomic_store_n(&s->types, types, __ATOMIC_RELEASE);
		return NULL;
	}
	weir_group group = __atomic_exchange_n(&s->group, 0, __ATOMIC_ACQ_REL);
	if (group) weir_nccl_weir.close(group);
	return error;
}
