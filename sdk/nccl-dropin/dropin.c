/* The functions of NCCL that Weir has a part in. The real communicator always exists; a sum on one whose ranks have agreed is
 * Weir's, everything else the real library's. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dropin.h"

#define NCCL __attribute__((visibility("default")))

/* Communicators that Weir serves, by address. Readers take no lock, so entries stay when a communicator has ended. */
enum { BUCKETS = 256 };
static _Atomic(served *) buckets[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of writers */

static unsigned bucket(ncclComm_t comm) { return ((uintptr_t)comm >> 12 ^ (uintptr_t)comm >> 4) % BUCKETS; }

static served *find(ncclComm_t comm) {
	if (!comm) return NULL; /* as that of one that has ended is */
	served *s = atomic_load_explicit(&buckets[bucket(comm)], memory_order_acquire);
	while (s && __atomic_load_n(&s->comm, __ATOMIC_ACQUIRE) != comm) s = s->next;
	return s;
}

void weir_nccl_keep(served *s) {
	pthread_mutex_lock(&lock);
	s->next = atomic_load(&buckets[bucket(s->comm)]);
	atomic_store_explicit(&buckets[bucket(s->comm)], s, memory_order_release);
	pthread_mutex_unlock(&lock);
}

/* take ends Weir's part in a communicator; only one caller gets it. NCCL is in no call for an agreement about it then. */
static served *take(ncclComm_t comm) {
	pthread_mutex_lock(&lock);
	served *s = find(comm);
	if (s) {
		pthread_mutex_lock(&s->alive);
		__atomic_store_n(&s->comm, NULL, __ATOMIC_RELEASE);
		pthread_mutex_unlock(&s->alive);
	}
	pthread_mutex_unlock(&lock);
	return s;
}

/* What Weir said last in this thread, for ncclGetLastError, and what NCCL had said before: when it says something else, that is later. */
static __thread char words[1024];
static __thread uint64_t before;
static __thread int depth; /* of group calls */

static uint64_t said_by_nccl(const char *said) {
	uint64_t h = 0xcbf29ce484222325;
	for (; said && *said; said++) h = (h ^ (unsigned char)*said) * 0x100000001b3;
	return h;
}

static ncclResult_t report(ncclResult_t r, const char *text) {
	snprintf(words, sizeof words, "Weir: %s", text);
	before = said_by_nccl(real_ncclGetLastError(NULL));
	return r;
}

static ncclResult_t result_of(weir_result r) {
	if (r == WEIR_OK) return SUCCESS;
	ncclResult_t nccl = r == WEIR_GROUP_FAILED ? REMOTE_ERROR : r == WEIR_INVALID ? INVALID_ARGUMENT : r == WEIR_BUSY || r == WEIR_CLOSED || r == WEIR_FORKED ? INVALID_USAGE : INTERNAL_ERROR;
	return report(nccl, weir_nccl_weir.last_error());
}

static ncclResult_t serve(const served *s, const void *src, void *dst, size_t count, int type, cudaStream_t stream) {
	weir_data_type t = type == NCCL_FLOAT32 ? WEIR_FLOAT32 : type == NCCL_FLOAT16 ? WEIR_FLOAT16 : WEIR_BFLOAT16;
	return result_of(weir_nccl_weir.all_reduce_device(s->group, dst, src, (int64_t)count, t, WEIR_SUM, stream));
}

static const char not_ready[] = "the communicator is still being made: ask ncclCommGetAsyncError until it says ncclSuccess";

static int agreeing(const served *s) { return __atomic_load_n(&s->state, __ATOMIC_ACQUIRE) == AGREEING; }

/* Which calls are Weir's follows from what is the same on all ranks: the communicator, type, op and count, and whether the program makes
 * the call between ncclGroupStart and ncclGroupEnd. */
NCCL ncclResult_t ncclAllReduce(const void *src, void *dst, size_t count, int type, int op, ncclComm_t comm, cudaStream_t stream) {
	served *s;
	if (op != NCCL_SUM || !count || depth || (unsigned)type >= NCCL_TYPES || !(s = find(comm))) return real_ncclAllReduce(src, dst, count, type, op, comm, stream);
	uint32_t types = __atomic_load_n(&s->types, __ATOMIC_ACQUIRE);
	if (types >> type & 1) return serve(s, src, dst, count, type, stream);
	if (!types && agreeing(s)) return report(INVALID_ARGUMENT, not_ready);
	return real_ncclAllReduce(src, dst, count, type, op, comm, stream);
}

/* made has the ranks of a new communicator agree: at once if it is ready, else on a thread, as its making goes on too. One that is made
 * in a group call is NCCL's. */
static ncclResult_t made(ncclResult_t r, ncclComm_t *comm) {
	ncclResult_t state = IN_PROGRESS;
	if ((r != SUCCESS && r != IN_PROGRESS) || depth || !*comm) return r;
	if (r == SUCCESS && (real_ncclCommGetAsyncError(*comm, &state) != SUCCESS || (state != SUCCESS && state != IN_PROGRESS))) return r;
	served *s = calloc(1, sizeof *s);
	const char *error = "no memory";
	if (s) {
		s->comm = *comm;
		pthread_mutex_init(&s->alive, NULL);
		if (state == IN_PROGRESS) return weir_nccl_agree_later(s);
		error = weir_nccl_agree(s);
	}
	if (error) {
		weir_nccl_say("%s", error);
		real_ncclCommAbort(*comm);
		*comm = NULL;
		free(s);
		return report(SYSTEM_ERROR, error);
	}
	if (s->types) weir_nccl_keep(s);
	else free(s);
	words[0] = 0;
	return SUCCESS;
}

static void about_to_make(int ranks, int rank) {
	if (ranks > 1 && !depth) weir_nccl_begin_join(rank); /* beside the wait for the peers, which may wait for others first */
}

NCCL ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank) {
	about_to_make(ranks, rank);
	return made(real_ncclCommInitRank(comm, ranks, id, rank), comm);
}

NCCL ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config) {
	about_to_make(ranks, rank);
	return made(real_ncclCommInitRankConfig(comm, ranks, id, rank, config), comm);
}

NCCL ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int ranks, int rank, int ids, ncclUniqueId *id, ncclConfig_t *config) {
	about_to_make(ranks, rank);
	return made(real_ncclCommInitRankScalable(comm, ranks, rank, ids, id, config), comm);
}

/* A part that does not block is there when its parent is done with it. Until then NCCL writes to memory of this library: the program's may
 * be gone. */
NCCL ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *part, ncclConfig_t *config) {
	served *s = depth || color < 0 || !part ? NULL : calloc(1, sizeof *s);
	if (!s) return real_ncclCommSplit(comm, color, key, part, config); /* without memory: it will be missed in the agreement */
	*s = (served){.wanted = part, .parent = comm};
	pthread_mutex_init(&s->alive, NULL);
	ncclResult_t r = real_ncclCommSplit(comm, color, key, &s->part, config);
	*part = __atomic_load_n(&s->part, __ATOMIC_ACQUIRE);
	if (r == IN_PROGRESS && !*part) return weir_nccl_split_later(s);
	if (r != IN_PROGRESS) free(s);
	return made(r, part);
}

/* give_up closes Weir's part, after a call that is in progress in another thread. */
static void give_up(served *s) {
	weir_result r;
	weir_group group = __atomic_load_n(&s->group, __ATOMIC_ACQUIRE);
	if (!group || agreeing(s)) return; /* the thread in which they agree closes it */
	for (int i = 0; (r = weir_nccl_weir.close(group)) == WEIR_BUSY && i < 2000; i++) usleep(1000);
	if (r != WEIR_OK) weir_nccl_say("%s", weir_nccl_weir.last_error());
}

static void stop(ncclComm_t comm, const char *why) {
	weir_nccl_forget_parts(comm);
	served *s = take(comm);
	weir_group group = s ? __atomic_load_n(&s->group, __ATOMIC_ACQUIRE) : 0;
	if (!group) return;
	weir_nccl_weir.abort(group, why);
	give_up(s);
}

NCCL ncclResult_t ncclCommDestroy(ncclComm_t comm) {
	served *s = find(comm);
	if (s && agreeing(s)) return report(INVALID_ARGUMENT, not_ready);
	weir_nccl_forget_parts(comm);
	if ((s = take(comm))) give_up(s);
	return real_ncclCommDestroy(comm);
}

NCCL ncclResult_t ncclCommAbort(ncclComm_t comm) {
	stop(comm, "ncclCommAbort");
	return real_ncclCommAbort(comm);
}

NCCL ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
	stop(comm, "ncclCommRevoke");
	return real_ncclCommRevoke(comm, flags);
}

/* A communicator of those that are left is NCCL's: who is left has to do without the others' agreement. */
NCCL ncclResult_t ncclCommShrink(ncclComm_t comm, int *without, int count, ncclComm_t *rest, ncclConfig_t *config, int flags) {
	if (flags & NCCL_SHRINK_ABORT) stop(comm, "ncclCommShrink");
	return real_ncclCommShrink(comm, without, count, rest, config, flags);
}

/* NCCL asks itself too, before most of what it does; what it wants to know is its own state. */
NCCL ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
	ncclResult_t r = real_ncclCommGetAsyncError(comm, error);
	if (r != SUCCESS || *error != SUCCESS || weir_nccl_is_real(__builtin_return_address(0))) return r;
	served *s = find(comm);
	*error = weir_nccl_splitting(comm);
	if (!s || *error != SUCCESS) return r;
	int state = __atomic_load_n(&s->state, __ATOMIC_ACQUIRE);
	if (state == AGREEING) *error = IN_PROGRESS;
	else if (state == BROKEN) *error = report(SYSTEM_ERROR, s->error);
	else if (s->types && weir_nccl_weir.group_error(s->group) == WEIR_GROUP_FAILED) *error = report(REMOTE_ERROR, weir_nccl_weir.last_error());
	return r;
}

NCCL const char *ncclGetLastError(ncclComm_t comm) {
	const char *said = real_ncclGetLastError(comm);
	return words[0] && said_by_nccl(said) == before ? words : said;
}

static ncclResult_t group(ncclResult_t r, int step) {
	if (depth + step >= 0 && (r == SUCCESS || step < 0)) depth += step;
	return r;
}

NCCL ncclResult_t ncclGroupStart(void) { return group(real_ncclGroupStart(), 1); }
NCCL ncclResult_t ncclGroupEnd(void) { return group(real_ncclGroupEnd(), -1); }
NCCL ncclResult_t ncclGroupSimulateEnd(void *info) { return group(real_ncclGroupSimulateEnd(info), -1); }
