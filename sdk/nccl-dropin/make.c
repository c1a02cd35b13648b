/* Communicators that are made. The ranks of one agree when NCCL has made it: at once, or at the end of the group call, or on a thread if it
 * does not block. */
#include <stdlib.h>
#include <string.h>

#include "dropin.h"

/* blocks says whether a communicator will, as NCCL decides it. */
static int blocks(const ncclConfig_t *config, int otherwise) {
	const char *always = getenv("NCCL_COMM_BLOCKING");
	if (always && (!strcmp(always, "0") || !strcmp(always, "1"))) return always[0] == '1';
	return config ? config->blocking != 0 : otherwise;
}

static served *expected(ncclComm_t *wanted, uint64_t identity, int blocking) {
	int ordinal;
	served *s = calloc(1, sizeof *s);
	if (!s) return NULL;
	*s = (served){.wanted = wanted, .identity = identity, .blocking = blocking, .rank = -1};
	pthread_mutex_init(&s->alive, NULL);
	if (weir_nccl_current_device(s->bus_id, &ordinal)) s->bus_id[0] = 0;
	return s;
}

void weir_nccl_about_to_end(served *made) {
	for (served *s = made; s; s = s->more)
		if (s->ranks > 1 && !s->several && !s->why) weir_nccl_begin_join(s->rank, s->bus_id);
}

/* rank is one that a communicator is to be made of. It joins beside the wait for the peers, which may wait for others first. */
static served *rank_of(ncclComm_t *comm, int ranks, int rank, const void *ids, size_t size, const ncclConfig_t *config) {
	served *s = expected(comm, weir_nccl_identity(ids, size), blocks(config, 1));
	if (!s) return NULL;
	s->ranks = ranks, s->rank = rank;
	if (!in_group()) weir_nccl_about_to_end(s);
	return s;
}

static const char no_memory[] = "no memory";

/* asked is the end of a function that makes a communicator. */
static ncclResult_t asked(ncclResult_t r, served *s) {
	if (r != SUCCESS && r != IN_PROGRESS) {
		if (s->parent) *s->wanted = s->part;
		free(s);
		return r;
	}
	if (!in_group()) return weir_nccl_made(r, s);
	s->grouped = 1;
	if (!s->parent) s->comm = *s->wanted; /* now: at the end the program's memory may be elsewhere */
	weir_nccl_make_in_group(s);
	return r;
}

NCCL ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank) {
	served *s = rank_of(comm, ranks, rank, &id, sizeof id, NULL);
	if (!s) return weir_nccl_report(SYSTEM_ERROR, no_memory);
	return asked(real_ncclCommInitRank(comm, ranks, id, rank), s);
}

NCCL ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config) {
	served *s = rank_of(comm, ranks, rank, &id, sizeof id, config);
	if (!s) return weir_nccl_report(SYSTEM_ERROR, no_memory);
	return asked(real_ncclCommInitRankConfig(comm, ranks, id, rank, config), s);
}

NCCL ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int ranks, int rank, int ids, ncclUniqueId *id, ncclConfig_t *config) {
	served *s = rank_of(comm, ranks, rank, id, id && ids > 0 ? ids * sizeof *id : 0, config);
	if (!s) return weir_nccl_report(SYSTEM_ERROR, no_memory);
	return asked(real_ncclCommInitRankScalable(comm, ranks, rank, ids, id, config), s);
}

/* A part is there when its parent is done with it, or at the end of a group call. Until then NCCL writes to memory of this library: the
 * program's may be gone. */
NCCL ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *part, ncclConfig_t *config) {
	uint64_t identity = weir_nccl_child(comm, (uint64_t)color);
	if (color < 0 || !part) return real_ncclCommSplit(comm, color, key, part, config);
	served *s = expected(part, identity, blocks(config, weir_nccl_origin(comm).blocking));
	if (!s) return weir_nccl_report(SYSTEM_ERROR, no_memory);
	s->parent = comm;
	*part = NULL;
	return asked(real_ncclCommSplit(comm, color, key, &s->part, config), s);
}

/* Communicators that are NCCL's, whoever asks: who is left, or is new, has to do without the others' agreement. */
NCCL ncclResult_t ncclCommShrink(ncclComm_t comm, int *without, int count, ncclComm_t *rest, ncclConfig_t *config, int flags) {
	int rank = 0, ranks = 0, before = 0;
	uint64_t of[] = {weir_nccl_origin(comm).identity, 0};
	int blocking = blocks(config, weir_nccl_origin(comm).blocking);
	if (comm && without && (real_ncclCommUserRank(comm, &rank) != SUCCESS || real_ncclCommCount(comm, &ranks) != SUCCESS)) ranks = 0;
	for (int i = 0; ranks && i < count; i++) {
		before += without[i] < rank;
		of[1] ^= weir_nccl_identity(&without[i], sizeof *without); /* in any order */
	}
	if (flags & NCCL_SHRINK_ABORT) weir_nccl_stop(comm, "ncclCommShrink");
	served *s = expected(rest, of[0] ? weir_nccl_identity(of, sizeof of) : 0, blocking);
	if (!s) return weir_nccl_report(SYSTEM_ERROR, no_memory);
	s->ranks = ranks - count, s->rank = rank - before, s->why = "ncclCommShrink has made it";
	return asked(real_ncclCommShrink(comm, without, count, rest, config, flags), s);
}

NCCL ncclResult_t ncclCommGrow(ncclComm_t comm, int ranks, const ncclUniqueId *id, int rank, ncclComm_t *grown, ncclConfig_t *config) {
	served *s = expected(grown, 0, blocks(config, comm ? weir_nccl_origin(comm).blocking : 1));
	if (!s) return weir_nccl_report(SYSTEM_ERROR, no_memory);
	s->ranks = ranks, s->rank = rank, s->why = "ncclCommGrow has made it";
	if (comm && real_ncclCommUserRank(comm, &s->rank) != SUCCESS) s->rank = -1;
	return asked(real_ncclCommGrow(comm, ranks, id, rank, grown, config), s);
}

NCCL ncclResult_t ncclCommInitAll(ncclComm_t *comms, int count, const int *devices) {
	ncclResult_t r = real_ncclCommInitAll(comms, count, devices);
	if (r != SUCCESS || count < 1) return r;
	int64_t random[] = {(int64_t)(intptr_t)comms, (int64_t)(intptr_t)comms[0], weir_nccl_now_ms()};
	uint64_t identity = weir_nccl_identity(random, sizeof random); /* all its ranks are here */
	for (int i = 0; i < count; i++) weir_nccl_know(comms[i], identity, blocks(NULL, 1));
	weir_nccl_tell_alone(count, "ncclCommInitAll has made it");
	return r;
}

static __thread char first_error[384];

/* agreed ends a communicator without agreement. One of a group call is left to the program to end, as when NCCL cannot make it. */
static void agreed(served *s, const char *error) {
	int grouped = s->grouped;
	s->grouped = 0;
	if (error) {
		if (!first_error[0]) strncpy(first_error, error, sizeof first_error - 1);
		weir_nccl_say("%s", error);
	}
	if (error && !grouped) {
		weir_nccl_forget(s->comm);
		real_ncclCommAbort(s->comm);
		*s->wanted = NULL;
	} else if (!error && s->types) {
		weir_nccl_keep(s);
		return;
	}
	free(s);
}

/* arrives is what there is to do for a communicator: nothing, let its ranks agree now, or later. */
enum { NOTHING, NOW, LATER };
static int arrives(ncclResult_t r, served *s) {
	ncclResult_t state = IN_PROGRESS;
	if (s->parent) *s->wanted = __atomic_load_n(&s->part, __ATOMIC_ACQUIRE);
	if (r != SUCCESS && r != IN_PROGRESS) return NOTHING;
	if (!s->comm) s->comm = *s->wanted;
	if (s->why && !s->rank) weir_nccl_tell_alone(s->ranks, s->why);
	if (!s->comm && r == IN_PROGRESS && s->parent) return LATER;
	if (!s->comm) return NOTHING;
	if (r == SUCCESS && (real_ncclCommGetAsyncError(s->comm, &state) != SUCCESS || (state != SUCCESS && state != IN_PROGRESS))) return NOTHING;
	if (state == IN_PROGRESS) s->blocking = 0;
	weir_nccl_know(s->comm, s->identity, s->blocking);
	if (s->why) return NOTHING;
	return state == IN_PROGRESS ? LATER : NOW;
}

/* by_identity is an order that all ranks know: each may have asked in another, and here they wait for each other. */
static int by_identity(const void *a, const void *b) {
	const served *x = *(served *const *)a, *y = *(served *const *)b;
	return x->identity < y->identity ? -1 : x->identity > y->identity;
}

ncclResult_t weir_nccl_made(ncclResult_t r, served *made) {
	int count = 0, now = 0, later = 0;
	for (served *s = made; s; s = s->more) count++;
	if (!count) return r;
	served *all[count], *first[count], *then[count];
	count = 0;
	for (served *s = made; s; s = s->more) all[count++] = s;
	qsort(all, count, sizeof *all, by_identity);
	for (int i = 0; i < count; i++) {
		int what = arrives(r, all[i]);
		all[i]->more = NULL;
		if (what == NOW) first[now++] = all[i];
		else if (what == LATER) then[later++] = all[i];
		else free(all[i]);
	}
	if (r != SUCCESS && r != IN_PROGRESS) return r;
	for (int i = 0; i < later; i++) then[i]->grouped = 0;
	if (later) r = weir_nccl_agree_later(then, later);
	first_error[0] = 0;
	weir_nccl_agree_all(first, now, agreed);
	if (first_error[0]) return weir_nccl_report(SYSTEM_ERROR, first_error);
	weir_nccl_no_report();
	return r;
}
