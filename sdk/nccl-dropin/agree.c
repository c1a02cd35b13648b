/* Whether all ranks of a communicator may use Weir. Each tells every other, through an all-gather of the communicator itself, who
 * it is; all then come to the same answer from the same facts. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "meeting.h"

/* How many sums of a communicator one group call may have for Weir to serve them. NCCL makes one kernel of them, Weir one after the
 * other, which on two H200s is not slower up to two (docs/adopt/nccl.md). WEIR_NCCL_GROUP_SUMS is another number. */
enum { GROUP_SUMS = 2 };

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
	const char *error = weir_nccl_new_event(&m->of->event);
	if (error) return refuse(own, error);
	m->of->context = m->room.context;
	own->types = served_types(group);
	return 1;
}

static vote first_vote(const served *of) {
	vote v = {.magic = MAGIC, .ok = 1, .most = 0};
	const char *most = getenv("WEIR_NCCL_GROUP_SUMS");
	if (of->blocking) v.most = most && *most ? atoi(most) : GROUP_SUMS;
	weir_nccl_self(&v.self);
	weir_nccl_who(&v.process);
	return v;
}

static int64_t first_ms(void) {
	const char *limit = getenv("WEIR_NCCL_TIMEOUT");
	return limit && atoi(limit) > 0 ? atoi(limit) * 1000L : FIRST_MS;
}

static const char *no_answer(const meeting *m, const char *error) {
	static __thread char text[384];
	if (error == weir_nccl_ended) return error;
	snprintf(text, sizeof text, "%s: every rank of a communicator must have this library, or none, and what one makes in one group call all make in one (rank %d of %d, first all-gather)",
		error, m->rank, m->size);
	return text;
}

/* take_turn has the ranks vote until all have the turn. */
static const char *take_turn(meeting *m, vote *own, turn *t, char *why) {
	unsigned seed = (unsigned)own->process.pid;
	int64_t end = weir_nccl_now_ms() + LATER_MS;
	for (int wait = 1000;; wait = wait < 50000 ? 2 * wait : wait) {
		own->turn = weir_nccl_try_turn(t);
		const char *error = gather(m, own, LATER_MS);
		if (error || failed(m, why)) return error;
		int all = 1;
		for (int r = 0; r < m->size; r++) all = all && m->votes[r].turn;
		if (all) return NULL;
		if (weir_nccl_now_ms() > end) return "the ranks of several communicators wait for each other";
		weir_nccl_end_turn(t, 0);
		usleep(wait + rand_r(&seed) % wait);
	}
}

/* join_and_form is what a rank does from when it has joined until it has a group. */
static const char *join_and_form(meeting *m, vote *own, char *why) {
	weir_session session;
	turn t = {.identity = m->of->identity};
	own->self.rank = m->rank;
	const char *trouble = weir_nccl_joined(&session, &own->self.rank, m->room.device); /* a CUdevice is its ordinal */
	if (trouble) refuse(own, trouble);
	weir_nccl_line_up(&t);
	const char *error = take_turn(m, own, &t, why);
	if (!error && !why[0]) form(m, own, session);
	weir_nccl_end_turn(&t, 1);
	return error;
}

/* talk is the rounds: who we are, who has joined as which rank and may form a group, what is served. The error is one that ends the
 * communicator. */
static const char *talk(meeting *m, uint32_t *types, char *why) {
	vote own = first_vote(m->of);
	who peers[m->size];
	const char *error = gather(m, &own, first_ms());
	if (error) return no_answer(m, error);
	m->of->most = own.most;
	for (int r = 0; r < m->size; r++) {
		peers[r] = m->votes[r].process;
		if (m->votes[r].most < m->of->most) m->of->most = m->votes[r].most;
	}
	if (against(m, why)) return NULL;
	m->peers = peers;
	if ((error = join_and_form(m, &own, why)) || why[0]) return error;
	if ((error = gather(m, &own, LATER_MS)) || failed(m, why)) return error;
	*types = ~0u;
	for (int r = 0; r < m->size; r++) *types &= m->votes[r].types;
	if (!*types) snprintf(why, 256, "no backend serves sums of float32, float16 or bfloat16; see weir status");
	return NULL;
}

static void tell(const meeting *m, uint32_t types, const char *why) {
	if (m->rank != 0) return;
	if (why[0]) weir_nccl_tell_alone(m->size, why);
	else weir_nccl_tell_served(m->size, types);
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

void weir_nccl_drop(served *s) {
	weir_group group = __atomic_exchange_n(&s->group, 0, __ATOMIC_ACQ_REL);
	if (group) weir_nccl_weir.close(group);
	weir_nccl_end_event(__atomic_exchange_n(&s->event, NULL, __ATOMIC_ACQ_REL));
}

const char *weir_nccl_agree(served *s) {
	meeting m = {.of = s, .comm = s->comm};
	const char *error = ask(&m);
	char why[256] = "";
	uint32_t types = 0;
	if (error) return error;
	if (m.size < 2) {
		tell(&m, 0, "it has one rank");
		return NULL;
	}
	error = weir_nccl_enter(&m.room, m.room.device, m.size * sizeof(vote));
	if (!error) error = talk(&m, &types, why);
	if (!error) tell(&m, types, why);
	weir_nccl_leave(&m.room, !error);
	if (!error && !why[0]) {
		__atomic_store_n(&s->types, types, __ATOMIC_RELEASE);
		return NULL;
	}
	weir_nccl_drop(s);
	return error;
}

/* vote_together is the first round of several ranks of a communicator that one thread has made: it makes the all-gather of all of them in
 * one group call, since it waits for all of them. */
static const char *vote_together(meeting *m, int count) {
	const char *error = NULL;
	ncclResult_t r = SUCCESS, end;
	for (int i = 0; i < count && !error; i++) {
		vote own = first_vote(m[i].of);
		error = put(&m[i], &own, first_ms());
	}
	if (error) return error;
	int held = 0;
	while (held < count && hold(m[held].of)) held++;
	if (held == count) {
		real_ncclGroupStart();
		for (int i = 0; i < count; i++)
			if ((end = all_gather(&m[i])) != SUCCESS && end != IN_PROGRESS) r = end;
		end = real_ncclGroupEnd();
		if (r == SUCCESS) r = end;
	} else error = weir_nccl_ended;
	while (held) release(m[--held].of);
	for (int i = 0; i < count && !error; i++)
		if ((error = get(&m[i], r))) error = no_answer(&m[i], error);
	return error;
}

/* decline has several ranks of a communicator that are in this process tell the others so. */
static const char *decline(served **all, int count) {
	meeting m[count];
	char why[256] = "ranks 0 and 1 are one process";
	const char *error = NULL;
	for (int i = 0; i < count; i++) {
		m[i] = (meeting){.of = all[i], .comm = all[i]->comm};
		if ((error = ask(&m[i]))) return error;
	}
	int entered = 0;
	if (m[0].size != count) { /* else nobody else is to be told */
		for (; entered < count && !error; entered++) error = weir_nccl_enter(&m[entered].room, m[entered].room.device, m[0].size * sizeof(vote));
		if (!error) error = vote_together(m, count);
		if (!error && !against(&m[0], why)) snprintf(why, sizeof why, "some of its ranks are one process");
	}
	for (int i = 0; i < count && !error; i++) tell(&m[i], 0, why);
	while (entered) weir_nccl_leave(&m[--entered].room, !error);
	return error;
}

void weir_nccl_agree_all(served **all, int count, void (*done)(served *, const char *error)) {
	for (int i = 0, n; i < count; i += n) {
		for (n = 1; all[i]->several && i + n < count && all[i + n]->several && all[i + n]->identity == all[i]->identity;) n++;
		const char *error = n > 1 ? decline(all + i, n) : weir_nccl_agree(all[i]);
		for (int k = i; k < i + n; k++) done(all[k], error);
	}
}
