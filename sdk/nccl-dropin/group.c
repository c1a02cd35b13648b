/* Calls between ncclGroupStart and ncclGroupEnd. At the end of the outermost all streams of the group call wait for each other, NCCL's part
 * begins, then Weir's sums on one of the streams, and all wait for each other again: as in NCCL, everything is as if it were on each of them.
 * Then the ranks of the communicators agree that were made. */
#include <stdlib.h>

#include "dropin.h"

typedef struct {
	served *of;
	int given; /* to NCCL */
	const void *src;
	void *dst;
	size_t count;
	int type;
	cudaStream_t stream;
} sum;

/* The group call of a thread. The memory is kept for the next. */
typedef struct {
	sum *sums;
	cudaStream_t *streams;
	int count, room, streams_count, streams_room;
	int works; /* calls that put something on a stream, sums of Weir's too */
	served *made, **last;
	int failed;
} group;
static __thread int depth;
static __thread group *own;
int weir_nccl_groups;

static pthread_key_t key;
static void ends(void *of) { /* the thread */
	group *g = of;
	free(g->sums);
	free(g->streams);
	free(g);
}
__attribute__((constructor)) static void make_key(void) { pthread_key_create(&key, ends); }

static group *mine(void) {
	if (!own && (own = calloc(1, sizeof *own))) pthread_setspecific(key, own);
	return own;
}

int weir_nccl_in_group(void) { return depth > 0; }

static const char no_memory[] = "no memory for a group call";
static ncclResult_t fail(group *g) {
	if (g) g->failed = 1;
	return weir_nccl_report(SYSTEM_ERROR, no_memory);
}

/* grown has room for one more, or is NULL. */
static void *grown(void *all, int count, int *room, size_t size) {
	if (count < *room) return all;
	void *more = realloc(all, (*room ? 2 * *room : 16) * size);
	if (more) *room = *room ? 2 * *room : 16;
	return more;
}

ncclResult_t weir_nccl_stream_in_group(cudaStream_t stream) {
	group *g = mine();
	if (g) g->works++;
	for (int i = 0; g && i < g->streams_count; i++)
		if (g->streams[i] == stream) return SUCCESS;
	void *more = g ? grown(g->streams, g->streams_count, &g->streams_room, sizeof stream) : NULL;
	if (!more) return fail(g);
	g->streams = more;
	g->streams[g->streams_count++] = stream;
	return SUCCESS;
}

static ncclResult_t give(sum *s) {
	ncclComm_t comm = __atomic_load_n(&s->of->comm, __ATOMIC_ACQUIRE);
	s->given = 1;
	return comm ? real_ncclAllReduce(s->src, s->dst, s->count, s->type, NCCL_SUM, comm, s->stream) : INVALID_ARGUMENT;
}

/* give_to_nccl gives it the sums of a communicator, or of all with NULL. */
static ncclResult_t give_to_nccl(group *g, served *of) {
	ncclResult_t r = SUCCESS;
	for (int i = 0; i < g->count && r == SUCCESS; i++)
		if (!g->sums[i].given && (!of || g->sums[i].of == of)) r = give(&g->sums[i]);
	return r;
}

/* How many sums of a communicator a group call has is the same on all its ranks, as NCCL needs it too. */
ncclResult_t weir_nccl_sum_in_group(served *s, const void *src, void *dst, size_t count, int type, cudaStream_t stream) {
	group *g = mine();
	ncclResult_t r = SUCCESS;
	if (s->most <= 0) return real_ncclAllReduce(src, dst, count, type, NCCL_SUM, s->comm, stream);
	if (s->grouped >= s->most) {
		r = give_to_nccl(g, s);
		s->grouped = INT32_MIN;
	}
	if (s->grouped < 0) return r == SUCCESS ? real_ncclAllReduce(src, dst, count, type, NCCL_SUM, s->comm, stream) : r;
	sum *more = g ? grown(g->sums, g->count, &g->room, sizeof *more) : NULL;
	if (!more) return fail(g);
	s->grouped++;
	g->sums = more;
	g->sums[g->count++] = (sum){s, 0, src, dst, count, type, stream};
	return SUCCESS;
}

void weir_nccl_make_in_group(served *s) {
	group *g = mine();
	s->more = NULL;
	if (!g) return; /* its peers wait in vain, and say so */
	for (served *o = g->made; o && s->identity; o = o->more)
		if (o->identity == s->identity && (o->rank != s->rank || s->parent)) o->several = s->several = 1;
	if (!g->made) g->last = &g->made;
	*g->last = s;
	g->last = &s->more;
}

/* A gathering of a group call's streams, of which the first is the one for Weir's sums. */
typedef struct {
	served *by; /* NULL: there are no sums of Weir's */
	int nccl;   /* it has a part */
	const char *error;
} gathering;

static void wait_for_all(group *g, gathering *of) {
	if (!of->error && g->streams_count > 1) of->error = weir_nccl_gather(of->by->context, of->by->event, g->streams, g->streams_count);
}
static void let_all_wait(group *g, gathering *of) {
	if (g->streams_count > 1) {
		const char *error = weir_nccl_scatter(of->by->context, of->by->event, g->streams, g->streams_count);
		if (!of->error) of->error = error;
	}
}

/* before is what is to be on the streams before NCCL's part. */
static gathering before(group *g) {
	gathering of = {0};
	cudaStream_t on = NULL;
	int own_sums = 0;
	for (int i = g->count - 1; i >= 0; i--) {
		if (g->sums[i].given) continue;
		of.by = g->sums[i].of;
		on = g->sums[i].stream;
		own_sums++;
	}
	if (!of.by) return of;
	of.nccl = g->works > own_sums;
	for (int i = 0; i < g->streams_count; i++)
		if (g->streams[i] == on) {
			g->streams[i] = g->streams[0];
			g->streams[0] = on;
		}
	wait_for_all(g, &of);
	if (of.nccl) let_all_wait(g, &of);
	return of;
}

/* begin makes Weir's sums, in the order of their calls. After one that fails none is made: the next would be taken for it by the peers. */
static ncclResult_t begin(group *g, gathering *of) {
	ncclResult_t r = SUCCESS;
	if (!of->by) return SUCCESS;
	if (of->nccl) wait_for_all(g, of);
	if (of->error) return weir_nccl_report(INVALID_USAGE, of->error);
	for (int i = 0; i < g->count && r == SUCCESS; i++) {
		const sum *s = &g->sums[i];
		if (!s->given) r = weir_nccl_serve(s->of, s->src, s->dst, s->count, s->type, g->streams[0]);
	}
	let_all_wait(g, of);
	return of->error && r == SUCCESS ? weir_nccl_report(INVALID_USAGE, of->error) : r;
}

/* A simulation is NCCL's of all that it would have done. It does make communicators. */
static ncclResult_t end(group *g, int simulate, void *info) {
	ncclResult_t given = simulate ? give_to_nccl(g, NULL) : SUCCESS, sums = SUCCESS;
	served *made = g->made;
	gathering of = simulate || g->failed ? (gathering){0} : before(g);
	weir_nccl_about_to_end(made);
	ncclResult_t r = simulate ? real_ncclGroupSimulateEnd(info) : real_ncclGroupEnd();
	depth = 0;
	__atomic_fetch_sub(&weir_nccl_groups, 1, __ATOMIC_RELAXED);
	int begun = r == SUCCESS || r == IN_PROGRESS;
	if (begun && g->failed) sums = weir_nccl_report(SYSTEM_ERROR, no_memory);
	else if (begun && !simulate) sums = begin(g, &of);
	for (int i = 0; i < g->count; i++) g->sums[i].of->grouped = 0;
	g->count = g->streams_count = g->works = g->failed = 0;
	g->made = NULL;
	r = weir_nccl_made(r, made);
	if ((r == SUCCESS || r == IN_PROGRESS) && given != SUCCESS) return given;
	return (r == SUCCESS || r == IN_PROGRESS) && sums != SUCCESS ? sums : r;
}

NCCL ncclResult_t ncclGroupStart(void) {
	ncclResult_t r = real_ncclGroupStart();
	if (r == SUCCESS && !depth++) __atomic_fetch_add(&weir_nccl_groups, 1, __ATOMIC_RELAXED);
	return r;
}

/* outer takes a level away; whether it was the outermost. */
static int outer(void) {
	if (depth == 1 && mine()) return 1;
	if (depth > 0 && !--depth) __atomic_fetch_sub(&weir_nccl_groups, 1, __ATOMIC_RELAXED);
	return 0;
}

NCCL ncclResult_t ncclGroupEnd(void) { return outer() ? end(own, 0, NULL) : real_ncclGroupEnd(); }

/* Without a place for what it has found NCCL takes it for the end itself. */
NCCL ncclResult_t ncclGroupSimulateEnd(void *info) { return outer() ? end(own, info != NULL, info) : real_ncclGroupSimulateEnd(info); }
