/* A child of fork(), or of a bare clone, gets an error from every function, at once; one that runs another program is not
 * concerned, and the parent goes on. For 2 ranks. */
#include <sys/syscall.h>
#include <sys/wait.h>
#include <signal.h>

#include "check.h"

static weir_session session;
static weir_group world;

static void in_child(void)
{
	weir_group g;
	weir_session s;
	int32_t n[2];
	char name[8];
	float x[4];
	weir_class c = {WEIR_HOST, WEIR_FLOAT32, WEIR_SUM, 0};
	alarm(20); /* in place of a hang */
	WANT(WEIR_FORKED, "forked", weir_join(NULL, &s));
	WANT(WEIR_FORKED, "forked", weir_leave(session));
	WANT(WEIR_FORKED, "forked", weir_world(session, &g));
	WANT(WEIR_FORKED, "forked", weir_new_group(session, n, 2, 0, &g));
	WANT(WEIR_FORKED, "forked", weir_split(world, 0, 0, 0, &g));
	WANT(WEIR_FORKED, "forked", weir_close(world));
	WANT(WEIR_FORKED, "forked", weir_rank(world, n));
	WANT(WEIR_FORKED, "forked", weir_size(world, n));
	WANT(WEIR_FORKED, "forked", weir_ranks(world, n, 2));
	WANT(WEIR_FORKED, "forked", weir_warm(world, &c, 1, 0));
	WANT(WEIR_FORKED, "forked", weir_backend(world, &c, 1, name, 8));
	WANT(WEIR_FORKED, "forked", weir_all_reduce(world, x, x, 4, WEIR_FLOAT32, WEIR_SUM));
	WANT(WEIR_FORKED, "forked", weir_all_reduce_device(world, x, x, 4, WEIR_FLOAT32, WEIR_SUM, NULL));
	WANT(WEIR_FORKED, "forked", weir_group_error(world));
	WANT(WEIR_FORKED, "forked", weir_exchange(world, NULL, 0, NULL, 0));
	if (weir_version()[0] == 0)
		FAIL("no version");
	_exit(0);
}

static void reap(pid_t pid)
{
	int status;
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		FAIL("the child ended with status %#x", status);
}

static void children(void)
{
	pid_t pid = fork();
	if (pid == 0)
		in_child();
	reap(pid);
	if ((pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0L)) == 0) /* past pthread_atfork */
		in_child();
	reap(pid);
	if (system("true") != 0)
		FAIL("a shell does not run");
}

int main(void)
{
	pid_t pid = fork(); /* loaded and not joined */
	if (pid == 0)
		in_child();
	reap(pid);
	OK(weir_join(NULL, &session));
	OK(weir_world(session, &world));
	sum_is_right(world, 10);
	children();
	sum_is_right(world, 1000);
	OK(weir_leave(session));
	puts("right");
	return 0;
}
