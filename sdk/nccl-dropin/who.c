/* Which process a rank is, so that its peers on the host can see that it has ended: NCCL alone would have them wait for it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dropin.h"

/* read_stat reads the state, number of threads and start of a process (proc(5), fields 3, 20 and 22); 0 if they cannot be read. */
static int read_stat(int pid, char *state, long *threads, unsigned long long *born) {
	char path[32], text[1024];
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (fd >= 0) close(fd);
	if (n <= 0) return 0;
	text[n] = 0;
	const char *name_ends = strrchr(text, ')'); /* the name may hold anything */
	return name_ends && sscanf(name_ends + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %llu", state, threads, born) == 3;
}

void weir_nccl_who(who *w) {
	char self[16] = "", state;
	long threads;
	unsigned long long born;
	struct stat space;
	memset(w, 0, sizeof *w);
	if (readlink("/proc/self", self, sizeof self - 1) < 0 || atoi(self) != getpid()) return; /* /proc is of another namespace */
	if (stat("/proc/self/ns/pid", &space) || !read_stat(getpid(), &state, &threads, &born)) return;
	*w = (who){.space = space.st_ino, .born = born, .pid = getpid()};
}

int weir_nccl_has_ended(const who *w, const who *own) {
	char state;
	long threads;
	unsigned long long born;
	if (!own->space || w->space != own->space) return 0;
	if (!read_stat(w->pid, &state, &threads, &born)) return kill(w->pid, 0) && errno == ESRCH; /* it may only be hidden */
	return born != w->born || ((state == 'Z' || state == 'X') && threads < 2); /* of more threads the first may have ended alone */
}
