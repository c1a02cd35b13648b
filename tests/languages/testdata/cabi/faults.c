/* Memory that is not there is the end of the group and not of the process; the program's own faults stay its own; errors are a
 * thread's. For 2 ranks. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

#include "check.h"

static weir_session session;
static int32_t rank;

static sigjmp_buf back;

static void caught(int s) { (void)s; siglongjmp(back, 1); }

/* own_faults has a handler that the program set after the library was loaded get the program's faults, and stay. */
static void own_faults(void)
{
	struct sigaction mine = {.sa_handler = caught, .sa_flags = SA_ONSTACK | SA_NODEFER}, before;
	sigaction(SIGSEGV, &mine, &before);
	if (sigsetjmp(back, 1) == 0) {
		*(volatile int *)8 = 1;
		FAIL("no fault");
	}
	sigaction(SIGSEGV, &before, NULL);
}

/* bad_memory has rank 0 call with memory that is not there or not writable. */
static void bad_memory(void *dst, const void *src, const char *words)
{
	weir_group g;
	float right[4096] = {0}, out[4096];
	OK(weir_new_group(session, (int32_t[]){0, 1}, 2, 0, &g));
	sum_is_right(g, 100); /* decided before */
	if (rank == 0) {
		WANT(WEIR_GROUP_FAILED, words, weir_all_reduce(g, dst == NULL ? out : dst, src == NULL ? right : src, 4096, WEIR_FLOAT32, WEIR_SUM));
	} else if (weir_all_reduce(g, out, right, 4096, WEIR_FLOAT32, WEIR_SUM) == WEIR_OK) {
		/* rank 0 had given its part before it met the memory: this rank learns of it afterwards */
		for (int i = 0; weir_group_error(g) == WEIR_OK; i++) {
			if (i == 10000)
				FAIL("the group does not fail");
			usleep(1000);
		}
	}
	WANT(WEIR_GROUP_FAILED, words, weir_group_error(g));
	WANT(WEIR_GROUP_FAILED, words, weir_all_reduce(g, out, right, 4096, WEIR_FLOAT32, WEIR_SUM));
	OK(weir_close(g));
}

static void *thread(void *world)
{
	if (weir_last_error()[0] != 0)
		FAIL("a new thread has the error of another: %s", weir_last_error());
	WANT(WEIR_CLOSED, "not open", weir_close(0));
	(void)world;
	return NULL;
}

/* busy has two threads in one group: the second is told so. */
static void *long_call(void *group)
{
	float x = 1;
	OK(weir_all_reduce(*(weir_group *)group, &x, &x, 1, WEIR_FLOAT32, WEIR_SUM));
	return NULL;
}

static void busy(weir_group world)
{
	weir_group g;
	float x = 1;
	int32_t n = 0, all[2];
	OK(weir_new_group(session, (int32_t[]){0, 1}, 2, 0, &g));
	if (rank == 0) {
		pthread_t t;
		pthread_create(&t, NULL, long_call, &g);
		for (int i = 0; weir_close(0), i < 10; i++) /* until the other thread is in its call */
			usleep(20000);
		WANT(WEIR_BUSY, "in progress", weir_all_reduce(g, &x, &x, 1, WEIR_FLOAT32, WEIR_SUM));
		WANT(WEIR_BUSY, "in progress", weir_close(g));
		WANT(WEIR_BUSY, "in progress", weir_leave(session));
		OK(weir_group_error(g));
		OK(weir_exchange(world, &n, sizeof n, all, 0)); /* the session is open still, and lets rank 1 come */
		pthread_join(t, NULL);
	} else {
		OK(weir_exchange(world, &n, sizeof n, all, 0));
		long_call(&g);
	}
	OK(weir_close(g));
}

int main(void)
{
	weir_group world;
	pthread_t t;
	OK(weir_join(NULL, &session));
	OK(weir_world(session, &world));
	OK(weir_rank(world, &rank));
	own_faults();
	long page = sysconf(_SC_PAGESIZE);
	char *gone = mmap(NULL, 16 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *readonly = mmap(NULL, 16 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bad_memory(NULL, (void *)4096, "no memory at 0x");
	bad_memory(NULL, gone, "no memory at 0x");
	bad_memory(readonly, NULL, "no memory at 0x");
	bad_memory((void *)UINT64_C(0x7f0000000000f0f0), NULL, "no memory"); /* maybe nothing is there */
	bad_memory((void *)UINT64_C(0x8000000000000000), NULL, "no memory"); /* not an address on amd64 */
	own_faults();
	busy(world);
	WANT(WEIR_INVALID, "NULL", weir_rank(world, NULL));
	pthread_create(&t, NULL, thread, NULL);
	pthread_join(t, NULL);
	if (strstr(weir_last_error(), "weir_rank") == NULL)
		FAIL("another thread's error in this one: %s", weir_last_error());
	sum_is_right(world, 1000);
	OK(weir_leave(session));
	puts("right");
	return 0;
}
