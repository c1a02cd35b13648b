/* A group is aborted while a rank waits in a call, by another of its threads and by another rank. For 2 ranks. */
#include <pthread.h>
#include <time.h>

#include "check.h"

static weir_session session;
static weir_group world;
static int32_t rank;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* What waits: a call of a class that is decided, one that has yet to be, a decision, and an exchange. */
enum { CALL, FIRST_CALL, WARM, EXCHANGE, WAYS };

static weir_result wait_in(weir_group g, int way)
{
	float x[64] = {1};
	char all[2];
	weir_class c = {WEIR_HOST, WEIR_INT32, WEIR_MAX, 0};
	switch (way) {
	case CALL:
		return weir_all_reduce(g, x, x, 64, WEIR_FLOAT32, WEIR_SUM);
	case FIRST_CALL:
		return weir_all_reduce(g, x, x, 64, WEIR_FLOAT32, WEIR_PROD);
	case WARM:
		return weir_warm(g, &c, 1, 0);
	}
	return weir_exchange(g, "a", 1, all, 0);
}

static void barrier(void) { OK(weir_exchange(world, NULL, 0, NULL, 0)); }

static void *abort_soon(void *group)
{
	usleep(100000); /* until the other thread waits */
	WANT(WEIR_INVALID, "reason is NULL", weir_abort(*(weir_group *)group, NULL));
	OK(weir_group_error(*(weir_group *)group));
	OK(weir_abort(*(weir_group *)group, "enough of it"));
	return NULL;
}

/* aborted has rank 0 wait and the group aborted by a thread of it, or by rank 1. */
static void aborted(int way, int by)
{
	weir_group g;
	pthread_t t;
	const char *words = by == 0 ? "rank 0 aborted it: enough of it" : "rank 1 aborted it: enough of it";
	OK(weir_new_group(session, (int32_t[]){0, 1}, 2, 0, &g));
	sum_is_right(g, 64);
	barrier();
	if (rank == by)
		pthread_create(&t, NULL, abort_soon, &g);
	double start = now();
	if (rank == 0)
		WANT(WEIR_GROUP_FAILED, words, wait_in(g, way));
	for (int i = 0; weir_group_error(g) == WEIR_OK; i++, usleep(1000))
		if (i == 20000)
			FAIL("rank %d is not told", rank);
	if (now() - start > 20)
		FAIL("rank %d waited for %g s", rank, now() - start);
	if (rank == by)
		pthread_join(t, NULL);
	WANT(WEIR_GROUP_FAILED, words, weir_group_error(g));
	WANT(WEIR_GROUP_FAILED, words, wait_in(g, way)); /* every later call too */
	OK(weir_abort(g, "again")); /* the first reason stays */
	WANT(WEIR_GROUP_FAILED, words, weir_group_error(g));
	OK(weir_close(g));
	WANT(WEIR_CLOSED, "not open", weir_abort(g, "closed"));
}

int main(void)
{
	OK(weir_join(NULL, &session));
	OK(weir_world(session, &world));
	OK(weir_rank(world, &rank));
	WANT(WEIR_CLOSED, "not open", weir_abort(0, "none"));
	WANT(WEIR_CLOSED, "not open", weir_abort(UINT64_C(0xdeadbeef), "never"));
	for (int way = 0; way < WAYS; way++)
		for (int by = 0; by < 2; by++)
			aborted(way, by);
	sum_is_right(world, 1000); /* another group of the same ranks goes on */
	OK(weir_leave(session));
	puts("right");
	return 0;
}
