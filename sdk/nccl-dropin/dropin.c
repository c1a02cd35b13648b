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

static uint64_t said_by_nccl(const char *said) {
	uint64_t h = 0xcbf29ce484222325;
	for (; said && *said; said++) h = (h ^ (unsigned char)*said) * 0x100000001b3;
	return h;
}

ncclResult_t weir_nccl_report(ncclResult_t r, const char *text) {
	snprintf(words, sizeof words, "Weir: %s", text);
	before = said_by_nccl(real_ncclGetLastError(NULL));
	return r;
}

void weir_nccl_no_report(void) { words[0] = 0; }

static ncclResult_t result_of(weir_result r) {
	if (r == WEIR_OK) return SUCCESS;
	ncclResult_t nccl = r == WEIR_GROUP_FAILED ? REMOTE_ERROR : r == WEIR_INVALID ? INVALID_ARGUMENT : r == WEIR_BUSY || r == WEIR_CLOSED || r == WEIR_FORKED ? INVALID_USAGE : INTERNAL_ERROR;
	return weir_nccl_report(nccl, weir_nccl_weir.last_error());
}

ncclResult_t weir_nccl_serve(const served *s, const void *src, void *dst, size_t count, int type, cudaStream_t stream) {
	weir_data_type t = type == NCCL_FLOAT32 ? WEIR_FLOAT32 : type == NCCL_FLOAT16 ? WEIR_FLOAT16 : WEIR_BFLOAT16;
	return result_of(weir_nccl_weir.all_reduce_device(s->group, dst, src, (int64_t)count, t, WEIR_SUM, stream));
}

static const char not_ready[] = "the communicator is still being made: ask ncclCommGetAsyncError until it says ncclSuccess";

static int agreeing(const served *s) { return __atomic_load_n(&s->state, __ATOMIC_ACQUIRE) == AGREEING; }

/* Which calls are Weir's follows from what is the same on all ranks: the communicator, type, op and count, and in a group call how many
 * there are of the communicator. */
NCCL ncclResult_t ncclAllReduce(const void *src, void *dst, size_t count, int type, int op, ncclComm_t comm, cudaStream_t stream) {
	served *s;
	if (in_group() && weir_nccl_stream_in_group(stream) != SUCCESS) return SYSTEM_ERROR;
	if (op != NCCL_SUM || !count || (unsigned)type >= NCCL_TYPES || !(s = find(comm))) return real_ncclAllReduce(src, dst, count, type, op, comm, stream);
	uint32_t types = __atomic_load_n(&s->types, __ATOMIC_ACQUIRE);
	if (types >> type & 1) return in_group() ? weir_nccl_sum_in_group(s, src, dst, count, type, stream) : weir_nccl_serve(s, src, dst, count, type, stream);
	if (!types && agreeing(s)) return weir_nccl_report(INVALID_ARGUMENT, not_ready);
	return real_ncclAllReduce(src, dst, count, type, op, comm, stream);
}

/* give_up closes Weir's part, after a call that is in progress in another thread. */
static void give_up(served *s) {
	weir_result r;
	weir_group group = __atomic_load_n(&s->group, __ATOMIC_ACQUIRE);
	if (!group || agreeing(s)) return; /* the thread in which they agree closes it */
	for (int i = 0; (r = weir_nccl_weir.close(group)) == WEIR_BUSY && i < 2000; i++) usleep(1000);
	if (r != WEIR_OK) weir_nccl_say("%s", weir_nccl_weir.last_error());
	weir_nccl_end_event(__atomic_exchange_n(&s->event, NULL, __ATOMIC_ACQ_REL));
}

void weir_nccl_stop(ncclComm_t comm, const char *why) {
	weir_nccl_forget_parts(comm);
	served *s = take(comm);
	weir_group group = s ? __atomic_load_n(&s->group, __ATOMIC_ACQUIRE) : 0;
	if (!group) return;
	weir_nccl_weir.abort(group, why);
	give_up(s);
}

NCCL ncclResult_t ncclCommDestroy(ncclComm_t comm) {
	served *s = find(comm);
	if (s && agreeing(s)) return weir_nccl_report(INVALID_ARGUMENT, not_ready);
	weir_nccl_forget_parts(comm);
	if ((s = take(comm))) give_up(s);
	weir_nccl_forget(comm);
	return real_ncclCommDestroy(comm);
}

NCCL ncclResult_t ncclCommAbort(ncclComm_t comm) {
	weir_nccl_stop(comm, "ncclCommAbort");
	weir_nccl_forget(comm);
	return real_ncclCommAbort(comm);
}

NCCL ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
	weir_nccl_stop(comm, "ncclCommRevoke");
	return real_ncclCommRevoke(comm, flags);
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
	else if (state == BROKEN) *error = weir_nccl_report(SYSTEM_ERROR, s->error);
	else if (s->types && weir_nccl_weir.group_error(s->group) == WEIR_GROUP_FAILED) *error = weir_nccl_report(REMOTE_ERROR, weir_nccl_weir.last_error());
	return r;
}

NCCL const char *ncclGetLastError(ncclComm_t comm) {
	const char *said = real_ncclGetLastError(comm);
	return words[0] && said_by_nccl(said) == before ? words : said;
}
