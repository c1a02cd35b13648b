/* This process as a rank: libweir.so is opened when the first communicator is made, and not before, because from then on there
 * are threads and signal handlers that a fork would lose. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "dropin.h"

weir_library weir_nccl_weir;

static const struct {
	const char *name;
	void *slot;
} functions[] = {
	{"weir_join", &weir_nccl_weir.join},
	{"weir_leave", &weir_nccl_weir.leave},
	{"weir_world", &weir_nccl_weir.world},
	{"weir_rank", &weir_nccl_weir.rank},
	{"weir_new_group", &weir_nccl_weir.new_group},
	{"weir_close", &weir_nccl_weir.close},
	{"weir_abort", &weir_nccl_weir.abort},
	{"weir_warm", &weir_nccl_weir.warm},
	{"weir_backend", &weir_nccl_weir.backend},
	{"weir_all_reduce_device", &weir_nccl_weir.all_reduce_device},
	{"weir_group_error", &weir_nccl_weir.group_error},
	{"weir_last_error", &weir_nccl_weir.last_error},
	{"weir_version", &weir_nccl_weir.version},
};

enum { NONE, JOINING, JOINED, FAILED };
static int state; /* written by one thread at a time, read by all */
static pid_t owner;
static own_rank self;
static char device[32], why[512];
static weir_session session;

void weir_nccl_say(const char *format, ...) {
	char line[1024];
	int n = snprintf(line, sizeof line, "weir-nccl[%d]: ", (int)getpid());
	va_list a;
	va_start(a, format);
	n += vsnprintf(line + n, sizeof line - n - 1, format, a);
	va_end(a);
	if (n > (int)sizeof line - 2) n = sizeof line - 2;
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, n) < 0) return; /* one write, so that lines of ranks do not mix */
}

int64_t weir_nccl_now_ms(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static uint64_t mix(uint64_t h, const void *data, size_t n) {
	for (const unsigned char *p = data; n--; p++) h = (h ^ *p) * 0x100000001b3;
	return h;
}

/* agent_of tells agents apart, also of several hosts whose sockets have the same path. */
static uint64_t agent_of(const char *socket) {
	struct stat s;
	if (stat(socket, &s) || !S_ISSOCK(s.st_mode)) return 0;
	uint64_t h = 0xcbf29ce484222325;
	char boot[64];
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	if (f) {
		h = mix(h, boot, fread(boot, 1, sizeof boot, f));
		fclose(f);
	}
	h = mix(h, &s.st_dev, sizeof s.st_dev);
	h = mix(h, &s.st_ino, sizeof s.st_ino);
	return h ? h : 1;
}

/* number reads a variable; NONE_SET if it is not, and BAD if it is no number from 0. */
enum { NONE_SET = -1, BAD = -2 };
static int number(const char *name) {
	const char *s = getenv(name);
	char *end;
	if (!s || !*s) return NONE_SET;
	long n = strtol(s, &end, 10);
	return *end || n < 0 || n > INT32_MAX ? BAD : n;
}

/* process_of tells processes apart: ids of two containers may be the same. */
static uint64_t process_of(void) {
	static _Atomic uint64_t number;
	static _Atomic pid_t of;
	uint64_t drawn = 0;
	if (atomic_exchange(&of, getpid()) == getpid()) /* or it is a child, to which the number came with the rest */
		while (!(drawn = atomic_load(&number))) usleep(100);
	else {
		if (getrandom(&drawn, sizeof drawn, GRND_NONBLOCK) != sizeof drawn || !drawn) drawn = (uint64_t)getpid() << 32 | (uint32_t)weir_nccl_now_ms() | 1;
		atomic_store(&number, drawn);
	}
	return drawn;
}

/* A program that starts its workers itself does not tell them who they are at the agent, and nothing else does: of several on a host each
 * may see its own GPU as the first, and LOCAL_RANK may be that of a launcher further up. So the agent chooses. */
void weir_nccl_self(own_rank *r) {
	memset(r, 0, sizeof *r);
	const char *socket = getenv("WEIR_AGENT_SOCKET"), *of = "WEIR_WORLD_SIZE";
	int rank = number("WEIR_RANK");
	r->process = process_of();
	r->world = number(of);
	if (r->world == NONE_SET) r->world = number(of = "LOCAL_WORLD_SIZE");
	r->rank = rank < 0 ? WEIR_ANY_RANK(0) : rank;
	if (!socket || !*socket) snprintf(r->why, sizeof r->why, "WEIR_AGENT_SOCKET is not set: no agent");
	else if (!(r->agent = agent_of(socket))) snprintf(r->why, sizeof r->why, "there is no agent at %s", socket);
	else if (r->world == NONE_SET) snprintf(r->why, sizeof r->why, "WEIR_WORLD_SIZE is not set");
	else if (r->world < 1) snprintf(r->why, sizeof r->why, "%s=%.40s is not a number of ranks", of, getenv(of));
	else if (rank == BAD) snprintf(r->why, sizeof r->why, "WEIR_RANK=%.40s is not a number from 0", getenv("WEIR_RANK"));
	else if (r->rank >= r->world) snprintf(r->why, sizeof r->why, "rank %d of %d does not exist", r->rank, r->world);
	else if (__atomic_load_n(&owner, __ATOMIC_RELAXED) && owner != getpid()) snprintf(r->why, sizeof r->why, "the process was forked after it had joined");
	if (r->why[0]) r->agent = 0;
}

/* library_path is libweir.so beside this library, unless WEIR_LIB names another. */
static void library_path(char out[PATH_MAX]) {
	const char *named = getenv("WEIR_LIB");
	Dl_info here;
	if (named && *named) snprintf(out, PATH_MAX, "%s", named);
	else if (dladdr(&weir_nccl_weir, &here) && realpath(here.dli_fname, out) && strrchr(out, '/')) snprintf(strrchr(out, '/'), 16, "/libweir.so");
	else snprintf(out, PATH_MAX, "libweir.so");
}

static int open_library(void) {
	char path[PATH_MAX + 16];
	library_path(path);
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		snprintf(why, sizeof why, "%s", dlerror());
		return 0;
	}
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
		void *f = dlsym(library, functions[i].name);
		if (!f) {
			snprintf(why, sizeof why, "%s has no %s: it is of another version of Weir", path, functions[i].name);
			return 0;
		}
		memcpy(functions[i].slot, &f, sizeof f);
	}
	return 1;
}

/* leave is how a process goes that ends in order but has not destroyed its communicators, as many do not: its peers are not to
 * take it for lost. It runs before the CUDA driver's own end, which was registered before. */
static void leave(void) {
	if (owner == getpid()) weir_nccl_weir.leave(session);
}

static void *join(void *unused) {
	(void)unused;
	int ok = open_library();
	if (ok) {
		weir_options o = WEIR_OPTIONS_INIT;
		o.rank = self.rank;
		o.world_size = self.world;
		o.device = device;
		weir_group world;
		ok = weir_nccl_weir.join(&o, &session) == WEIR_OK && weir_nccl_weir.world(session, &world) == WEIR_OK && weir_nccl_weir.rank(world, &self.rank) == WEIR_OK;
		if (ok) atexit(leave);
		else snprintf(why, sizeof why, "%s", weir_nccl_weir.last_error());
	}
	__atomic_store_n(&state, ok ? JOINED : FAILED, __ATOMIC_RELEASE);
	return NULL;
}

/* start joins on a thread of its own, with a device; the first call counts. */
static void start(const char *bus_id, int rather) {
	own_rank r;
	int none = NONE;
	weir_nccl_self(&r);
	if (!r.agent || !__atomic_compare_exchange_n(&state, &none, JOINING, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return;
	memcpy(device, bus_id, sizeof device);
	self = r;
	if (r.rank < 0) self.rank = WEIR_ANY_RANK(rather); /* so that Weir's words name ranks as the program does, where that can be */
	__atomic_store_n(&owner, getpid(), __ATOMIC_RELAXED);
	pthread_t thread;
	int failed = pthread_create(&thread, NULL, join, NULL);
	if (!failed) {
		pthread_detach(thread);
		return;
	}
	snprintf(why, sizeof why, "no thread can be started: %s", strerror(failed));
	__atomic_store_n(&state, FAILED, __ATOMIC_RELEASE);
}

void weir_nccl_begin_join(int rather, const char bus_id[32]) {
	if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) == NONE && bus_id[0]) start(bus_id, rather);
}

const char *weir_nccl_joined(weir_session *out, int32_t *rank, int ordinal) {
	char bus_id[32];
	const char *error = weir_nccl_bus_id(ordinal, bus_id);
	if (error) return error;
	start(bus_id, *rank);
	int now;
	while ((now = __atomic_load_n(&state, __ATOMIC_ACQUIRE)) == JOINING) usleep(200); /* the agent bounds it */
	if (now != JOINED) return now == NONE ? "the agent has gone" : why;
	*out = session;
	*rank = self.rank;
	return strcmp(device, bus_id) ? "the process has joined with another GPU than the communicator's" : NULL;
}
