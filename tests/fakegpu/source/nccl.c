// A library with the NCCL ABI on host memory, whose ranks are threads or processes that meet in memory named by the unique id:
// a descriptor of the process that made the id, so that nothing is left behind whoever fails or dies. Its environment:
//   NCCL_FAKE_VERSION   version code (22809, or what it was built with as VERSION)
//   FAKE_NCCL_FAIL      FUNCTION:RESULT[:RANK] makes a function fail, such as ncclCommInitRank:2:1
//   FAKE_NCCL_HANG      FUNCTION[:RANK] makes a function never return, not even when aborted
//   FAKE_NCCL_CRASH     FUNCTION[:RANK] makes a function end the process
//   FAKE_NCCL_ASYNC     RESULT[:RANK] is the asynchronous error after the first hundred all-reduces
//   FAKE_NCCL_ENDS      N:RANK ends the process of a rank at the all-gather after its first N collectives
//   FAKE_NCCL_WRONG     rank that gets a wrong sum
//   FAKE_NCCL_LATER     MS[:RANK] makes communicators that do not block on a thread, after so long, and has collectives ask first, as
//                       NCCL does, by ncclCommGetAsyncError whether their communicator is ready
//   FAKE_NCCL_SHARE     0: refuse two ranks on one device, as NCCL before 2.30 does within a host (NCCL_HOSTID counts)
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SUCCESS, CUDA_ERROR, SYSTEM_ERROR, INTERNAL_ERROR, INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR, IN_PROGRESS };
#define SLOT (1 << 20)
#ifndef VERSION
#define VERSION 22809
#endif
#define MAXRANKS 16
typedef struct { char bytes[128]; } id;
typedef struct {
	int arrived, generation, joined, dead;
	char hosts[MAXRANKS][64];
	void *contexts[MAXRANKS];
	char slots[MAXRANKS][SLOT];
} meeting;
typedef struct { meeting *m; int rank, world, aborted, calls, graphs, device, state, later, blocking, made; uint64_t name; void *split; } comm;
typedef struct { comm *c; const char *src; char *dst; size_t n; int type, op; double scale; } call; // what is not 1 is multiplied by it first
typedef struct { size_t size; unsigned magic, version; int blocking; } config;
enum { GATHER = -1, BROADCAST = -2 }; // ops of their own; of a broadcast its root is rank 0

static char last[256];
static int process_rank; // of the last communicator
static __thread int on_stream;

static void message(int rank, const char *level, const char *text) {
	const char *debug = getenv("NCCL_DEBUG"), *path = getenv("NCCL_DEBUG_FILE");
	if (!debug || (strcmp(level, "WARN") && strcmp(debug, "INFO"))) return;
	FILE *f = path && *path ? fopen(path, "w") : stdout;
	if (!f) return;
	fprintf(f, "fakehost:%d [%d] NCCL %s %s\n", getpid(), rank, level, text);
	if (f == stdout) fflush(f); else fclose(f);
}
static void say(int rank, const char *text) {
	snprintf(last, sizeof last, "%s", text);
	message(rank, "WARN", text);
}
// asked compares "FUNCTION[:…][:RANK]" of a variable with a call; result gets the number after the function.
static int asked(const char *variable, const char *function, int rank, int *result) {
	const char *s = getenv(variable);
	size_t n = strlen(function);
	if (!s || strncmp(s, function, n) || (s[n] && s[n] != ':')) return 0;
	s += n;
	if (result && *s == ':') *result = strtol(s + 1, (char **)&s, 10);
	return *s != ':' || atoi(s + 1) == rank || rank < 0;
}
static int trouble(const char *function, int rank) {
	int result = 0;
	if (asked("FAKE_NCCL_CRASH", function, rank, 0)) abort();
	if (asked("FAKE_NCCL_HANG", function, rank, 0)) for (;;) pause();
	if (!asked("FAKE_NCCL_FAIL", function, rank, &result)) return 0;
	char text[128];
	snprintf(text, sizeof text, "%s fails on request", function);
	say(rank, text);
	return result;
}

int ncclGetVersion(int *v) {
	const char *s = getenv("NCCL_FAKE_VERSION");
	*v = s && *s ? atoi(s) : VERSION;
	return trouble("ncclGetVersion", -1);
}
const char *ncclGetErrorString(int r) {
	static const char *names[] = {"no error", "unhandled cuda error", "unhandled system error", "internal error", "invalid argument", "invalid usage", "remote process exited or there was a network error"};
	return r >= 0 && r < 7 ? names[r] : "unknown result code";
}
const char *ncclGetLastError(void *c) { (void)c; return last; }
int ncclGetUniqueId(id *out) {
	int r = trouble("ncclGetUniqueId", 0);
	if (r) return r;
	memset(out, 0, sizeof *out);
	int fd = memfd_create("fake-nccl", MFD_CLOEXEC); // closed when all ranks have it
	if (fd < 0 || ftruncate(fd, sizeof(meeting))) { say(0, "no shared memory"); return SYSTEM_ERROR; }
	snprintf(out->bytes, sizeof out->bytes, "/proc/%d/fd/%d", getpid(), fd);
	return SUCCESS;
}

// meet waits until all ranks have come; it gives up when this rank aborts or a peer has.
static int meet(comm *c) {
	meeting *m = c->m;
	int generation = __atomic_load_n(&m->generation, __ATOMIC_SEQ_CST);
	if (__atomic_add_fetch(&m->arrived, 1, __ATOMIC_SEQ_CST) == c->world) {
		__atomic_store_n(&m->arrived, 0, __ATOMIC_SEQ_CST);
		__atomic_add_fetch(&m->generation, 1, __ATOMIC_SEQ_CST);
		return 0;
	}
	for (int i = 0; __atomic_load_n(&m->generation, __ATOMIC_SEQ_CST) == generation; i++) {
		if (__atomic_load_n(&c->aborted, __ATOMIC_SEQ_CST)) return 1;
		if (i < 1000) sched_yield(); else usleep(200);
	}
	return 0;
}

static void *driver(const char *name) {
	void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	return cuda ? dlsym(cuda, name) : 0;
}
static void *current(void) {
	void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), *c = 0;
	int (*get)(void **) = cuda ? (int (*)(void **))dlsym(cuda, "cuCtxGetCurrent") : 0;
	if (get) get(&c);
	return c;
}
// later is FAKE_NCCL_LATER for a rank, in milliseconds; -1 if nothing is made later.
static int later(int rank) {
	const char *s = getenv("FAKE_NCCL_LATER"), *only = s ? strchr(s, ':') : 0;
	return !s ? -1 : !only || atoi(only + 1) == rank ? atoi(s) : 0;
}
static int finish(comm *c, const char *path) {
	int left = meet(c), maker = 0, theirs = -1;
	if (c->rank == 0 && sscanf(path, "/proc/%d/fd/%d", &maker, &theirs) == 2 && maker == getpid()) close(theirs);
	const char *share = getenv("FAKE_NCCL_SHARE");
	int refuse = 0;
	for (int a = 0; share && !strcmp(share, "0") && a < c->world; a++)
		for (int b = 0; b < a; b++)
			if (c->m->contexts[a] == c->m->contexts[b] && !strcmp(c->m->hosts[a], c->m->hosts[b])) refuse = 1;
	if (left || meet(c)) { say(c->rank, "the making of a communicator was aborted"); return INTERNAL_ERROR; }
	message(c->rank, "INFO", "Init COMPLETE");
	if (refuse) { say(c->rank, "Duplicate GPU detected"); return INVALID_USAGE; }
	c->made = 1;
	return SUCCESS;
}
int ncclCommGetAsyncError(comm *, int *);
#include "nccl_group.c"
typedef struct { comm *c; id path; } making;
static int make(void *argument) {
	making *m = argument;
	if (!m->c->blocking && m->c->later) usleep(1000 * later(m->c->rank));
	int r = trouble("init", m->c->rank); // after the call that asked for it has returned, in a group call
	return r ? r : finish(m->c, m->path.bytes);
}
static int by_default(int blocking) {
	const char *always = getenv("NCCL_COMM_BLOCKING");
	return always ? atoi(always) : blocking;
}
static int begin(comm **out, int world, const id *i, int rank, int blocking) {
	int r = trouble("ncclCommInitRank", rank);
	if (r) return noted(r);
	if (world > MAXRANKS || rank < 0 || rank >= world) return noted(INVALID_ARGUMENT);
	int fd = open(i->bytes, O_RDWR);
	if (fd < 0) { say(rank, "nobody made the unique id"); return noted(SYSTEM_ERROR); }
	process_rank = rank;
	comm *c = calloc(1, sizeof *c);
	*c = (comm){.m = mmap(0, sizeof(meeting), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), .rank = rank, .world = world, .blocking = blocking};
	close(fd);
	for (const char *p = i->bytes; *p; p++) c->name = c->name * 31 + *p;
	const char *host = getenv("NCCL_HOSTID");
	snprintf(c->m->hosts[rank], 64, "%s", host ? host : "here");
	c->m->contexts[rank] = current();
	int (*device)(int *) = (int (*)(int *))dlsym(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), "cuCtxGetDevice");
	if (device) device(&c->device);
	c->later = later(rank) >= 0;
	making *m = malloc(sizeof *m);
	*m = (making){c, *i};
	*out = c; // in a group call too, before it can be used
	int r2 = launch_job(make, m, c, c, c->later);
	if (r2 && r2 != IN_PROGRESS && !depth) *out = 0;
	return r2;
}
#ifndef NO_SCALABLE
int ncclCommInitRankScalable(comm **c, int world, int rank, int ids, id *i, void *config) { (void)ids; (void)config; return begin(c, world, i, rank, by_default(1)); }
#endif
#ifndef NO_CONFIG
int ncclCommInitRankConfig(comm **c, int world, id i, int rank, config *o) {
	if (o && (o->size < sizeof *o || o->magic != 0xcafebeef)) return INVALID_ARGUMENT;
	return begin(c, world, &i, rank, by_default(!o || o->blocking));
}
#endif
int ncclCommInitRank(comm **c, int world, id i, int rank) { return begin(c, world, &i, rank, by_default(1)); }
int ncclCommInitAll(comm **all, int n, const int *devices) {
	id i;
	int r = ncclGetUniqueId(&i), (*set)(void *) = (int (*)(void *))driver("cuCtxSetCurrent"), (*retain)(void **, int) = (int (*)(void **, int))driver("cuDevicePrimaryCtxRetain");
	void *before = current(), *context;
	depth++;
	for (int rank = 0; rank < n && !r; rank++) {
		if (retain && !retain(&context, devices ? devices[rank] : rank)) set(context);
		r = begin(&all[rank], n, &i, rank, by_default(1));
	}
	if (set) set(before);
	int end = end_group(0);
	return r ? r : end;
}
int ncclCommGetAsyncError(comm *c, int *result) {
	const char *s = getenv("FAKE_NCCL_ASYNC");
	*result = SUCCESS;
	if (s && c->calls > 100) {
		const char *rank = strchr(s, ':');
		if (!rank || atoi(rank + 1) == c->rank) { *result = atoi(s); say(c->rank, "asynchronous error on request"); }
	}
	if (c->state) *result = __atomic_load_n(&c->state, __ATOMIC_SEQ_CST);
	return trouble("ncclCommGetAsyncError", c->rank);
}
// ready is what a collective asks first. The function is one that another library may have put itself before.
static int ready(comm *c) {
	int r = SUCCESS;
	if (c->later) ncclCommGetAsyncError(c, &r);
	if (!r && !c->made) r = INVALID_USAGE; // of the same group call
	if (r) say(c->rank, "Attempt to use communicator before the previous operation returned ncclSuccess");
	return r == IN_PROGRESS ? INVALID_ARGUMENT : r;
}
int ncclCommAbort(comm *c) { __atomic_store_n(&c->aborted, 1, __ATOMIC_SEQ_CST); return trouble("ncclCommAbort", c->rank); }
int ncclCommFinalize(comm *c) { return trouble("ncclCommFinalize", c->rank); }
int ncclCommDestroy(comm *c) { return c ? trouble("ncclCommDestroy", c->rank) : SUCCESS; }

int ncclCommUserRank(comm *c, int *rank) { *rank = c->rank; return SUCCESS; }
int ncclCommCount(comm *c, int *world) { *world = c->world; return SUCCESS; }
int ncclCommCuDevice(comm *c, int *device) { *device = c->device; return SUCCESS; }
// split makes parts of all ranks with the same color, in the order of key and rank.
typedef struct { comm *c, **part; int color, key, blocking; void *context; } splitting;
static int divide(splitting *s) {
	comm *c = s->c;
	int (*mine)[2] = (void *)c->m->hosts[c->rank], color = s->color, key = s->key;
	id *made = (id *)(c->m->slots[c->rank]);
	(*mine)[0] = color, (*mine)[1] = key;
	if (meet(c)) return INTERNAL_ERROR;
	int rank = 0, world = 0, first = -1;
	for (int r = 0; r < c->world; r++) {
		int *other = (void *)c->m->hosts[r];
		if (other[0] != color) continue;
		if (first < 0) first = r;
		world++;
		rank += other[1] < key || (other[1] == key && r < c->rank);
	}
	int r = color >= 0 && first == c->rank ? ncclGetUniqueId(made) : SUCCESS;
	if (meet(c)) return INTERNAL_ERROR;
	id theirs = color < 0 ? (id){{0}} : *(id *)c->m->slots[first];
	if (meet(c)) return INTERNAL_ERROR;
	comm *new = 0;
	if (!r && color >= 0) r = begin(&new, world, &theirs, rank, 1); // of this thread, which is in no group call
	if (new) new->blocking = s->blocking;
	__atomic_store_n(s->part, new, __ATOMIC_SEQ_CST); // only now
	return r;
}
static int split(void *argument) {
	splitting *s = argument;
	int (*set)(void *) = (int (*)(void *))dlsym(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), "cuCtxSetCurrent");
	if (set) set(s->context);
	if (!s->blocking && s->c->later) usleep(1000 * later(s->c->rank));
	int r = trouble("split", s->c->rank);
	return r ? r : divide(s);
}
int ncclCommSplit(comm *c, int color, int key, comm **part, config *o) {
	int r = ready(c);
	*part = 0;
	if (r) return noted(r);
	splitting *s = malloc(sizeof *s);
	*s = (splitting){c, part, color, key, o ? o->blocking != 0 : c->blocking, current()};
	return launch_job(split, s, c, 0, c->later && !s->blocking);
}

static const int sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
static int size_of(const call *k) { return sizes[k->type]; }
static double half(uint16_t h) {
	int e = h >> 10 & 31, f = h & 1023;
	double v = e == 0 ? ldexp(f, -24) : e == 31 ? (f ? NAN : INFINITY) : ldexp(f + 1024, e - 25);
	return h >> 15 ? -v : v;
}
static uint16_t to_half(double d) {
	uint16_t sign = signbit(d) ? 0x8000 : 0;
	d = fabs(d);
	if (isnan(d)) return sign | 0x7e00;
	if (d >= 65520) return sign | 0x7c00;
	int e;
	frexp(d, &e);
	if (d < ldexp(1, -14)) return sign | (uint16_t)nearbyint(ldexp(d, 24));
	uint32_t v = (uint32_t)nearbyint(ldexp(d, 11 - e));
	return sign | (uint16_t)(((e + 14) << 10) + (v - 1024));
}
static double brain(uint16_t b) { uint32_t u = (uint32_t)b << 16; float f; memcpy(&f, &u, 4); return f; }
static uint16_t to_brain(double d) {
	float f = d; uint32_t u; memcpy(&u, &f, 4);
	if (isnan(d)) return 0x7fc0;
	return (u + 0x7fff + (u >> 16 & 1)) >> 16;
}
static double get(const char *p, int type, size_t i) {
	switch (type) {
	case 6: return half(((uint16_t *)p)[i]);
	case 7: return ((float *)p)[i];
	case 8: return ((double *)p)[i];
	}
	return brain(((uint16_t *)p)[i]);
}
static void put(char *p, int type, size_t i, double v) {
	switch (type) {
	case 6: ((uint16_t *)p)[i] = to_half(v); break;
	case 7: ((float *)p)[i] = v; break;
	case 8: ((double *)p)[i] = v; break;
	default: ((uint16_t *)p)[i] = to_brain(v);
	}
}
static int64_t get_int(const char *p, int type, size_t i) {
	switch (type) {
	case 0: return ((int8_t *)p)[i];
	case 1: return ((uint8_t *)p)[i];
	case 2: return ((int32_t *)p)[i];
	case 3: return ((uint32_t *)p)[i];
	}
	return ((int64_t *)p)[i];
}
static void put_int(char *p, int type, size_t i, int64_t v) {
	switch (type) {
	case 0: ((int8_t *)p)[i] = v; break;
	case 1: ((uint8_t *)p)[i] = v; break;
	case 2: case 3: ((int32_t *)p)[i] = v; break;
	default: ((int64_t *)p)[i] = v;
	}
}
static void reduce(const call *k, char *out, size_t n) {
	comm *c = k->c;
	for (size_t i = 0; i < n; i++) {
		if (k->type >= 6) {
			double v = get(c->m->slots[0], k->type, i);
			for (int r = 1; r < c->world; r++) {
				double w = get(c->m->slots[r], k->type, i);
				switch (k->op) {
				case 1: v *= w; break;
				case 2: v = fmax(v, w); break;
				case 3: v = fmin(v, w); break;
				default: v += w;
				}
			}
			put(out, k->type, i, k->op == 4 ? v / c->world : v);
			continue;
		}
		int64_t v = get_int(c->m->slots[0], k->type, i);
		for (int r = 1; r < c->world; r++) {
			int64_t w = get_int(c->m->slots[r], k->type, i);
			switch (k->op) {
			case 1: v = (uint64_t)v * (uint64_t)w; break;
			case 2: v = v > w ? v : w; break;
			case 3: v = v < w ? v : w; break;
			default: v = (uint64_t)v + (uint64_t)w;
			}
		}
		if (k->op == 4) { put_int(out, k->type, i, v); v = get_int(out, k->type, i) / c->world; }
		put_int(out, k->type, i, v);
	}
}
static void scale(char *p, size_t n, const call *k) {
	for (size_t i = 0; k->scale != 1 && i < n; i++)
		if (k->type >= 6) put(p, k->type, i, get(p, k->type, i) * k->scale);
		else put_int(p, k->type, i, get_int(p, k->type, i) * (int64_t)k->scale);
}
// Ops that multiply by a number of the rank's own before they add.
enum { OWN_OP = 5, OWN_OPS = 64 };
static double scales[OWN_OPS];
int ncclRedOpCreatePreMulSum(int *op, void *by, int type, int where, comm *c) {
	static int made;
	if (where != 1 || !c || type < 0 || type > 9) return noted(INVALID_ARGUMENT); // only numbers that are on the host
	*op = OWN_OP + __atomic_fetch_add(&made, 1, __ATOMIC_SEQ_CST) % OWN_OPS;
	scales[*op - OWN_OP] = type >= 6 ? get(by, type, 0) : get_int(by, type, 0);
	return SUCCESS;
}
int ncclRedOpDestroy(int op, comm *c) { return c && op >= OWN_OP ? SUCCESS : INVALID_ARGUMENT; }
// run is the collective's kernel: it works on the stream's thread and leaves when the communicator is aborted.
static void run(void *argument) {
	call *k = argument;
	comm *c = k->c;
	size_t size = sizes[k->type], step = SLOT / size;
	on_stream = 1;
	for (size_t at = 0; at < k->n; at += step) {
		size_t n = k->n - at < step ? k->n - at : step;
		memcpy(c->m->slots[c->rank], k->src + at * size, n * size);
		scale(c->m->slots[c->rank], n, k);
		if (meet(c)) return;
		if (k->op == GATHER)
			for (int r = 0; r < c->world; r++) memcpy(k->dst + (r * k->n + at) * size, c->m->slots[r], n * size);
		else if (k->op == BROADCAST) memcpy(k->dst + at * size, c->m->slots[0], n * size);
		else reduce(k, k->dst + at * size, n);
		if (meet(c)) return;
	}
	const char *wrong = getenv("FAKE_NCCL_WRONG");
	if (wrong && atoi(wrong) == c->rank && k->n && k->op >= 0) k->dst[0] ^= 1;
}
static int enqueue(const call *of, void *stream) {
	static int (*launch)(void *, void (*)(void *), void *);
	if (!launch) launch = (int (*)(void *, void (*)(void *), void *))driver("fakeLaunch");
	call *k = malloc(sizeof *k); // kept: a graph may run it again
	*k = *of;
	if (!launch) { run(k); return SUCCESS; }
	if (launch(stream, run, k)) { say(of->c->rank, "Cuda failure"); return CUDA_ERROR; }
	return SUCCESS;
}
#ifndef NO_ALLREDUCE
int ncclAllReduce(const void *src, void *dst, size_t n, int type, int op, comm *c, void *stream) {
#ifdef IDLE
	return SUCCESS; // for what a call costs that does nothing
#endif
	int r = trouble("ncclAllReduce", c->rank);
	if (r || (r = ready(c))) return noted(r);
	if (type < 0 || type > 9 || op < 0 || op >= OWN_OP + OWN_OPS) { say(c->rank, "no such type or op"); return noted(INVALID_ARGUMENT); }
	return start((call){c, src, dst, n, type, op >= OWN_OP ? 0 : op, op >= OWN_OP ? scales[op - OWN_OP] : 1}, stream);
}
#endif
int ncclAllGather(const void *src, void *dst, size_t n, int type, comm *c, void *stream) {
	int r = trouble("ncclAllGather", c->rank), after, ends;
	const char *s = getenv("FAKE_NCCL_ENDS");
	if (s && sscanf(s, "%d:%d", &after, &ends) == 2 && c->calls == after && c->rank == ends) _exit(3);
	return r || (r = ready(c)) ? noted(r) : start((call){c, src, dst, n, type, GATHER, 1}, stream);
}
int ncclBroadcast(const void *src, void *dst, size_t n, int type, int root, comm *c, void *stream) {
	int r = trouble("ncclBroadcast", c->rank);
	if (!r && root) r = INVALID_ARGUMENT; // as far as the tests go
	return r || (r = ready(c)) ? noted(r) : start((call){c, src, dst, n, type, BROADCAST, 1}, stream);
}
#ifdef NEWER
int ncclBrandNew(int x) { return 2 * x; }
#endif
#ifndef NO_WINDOWS
int ncclMemAlloc(void **p, size_t n) {
	int r = trouble("ncclMemAlloc", -1);
	return r ? r : ((int (*)(void **, size_t))driver("cuMemAlloc_v2"))(p, n) ? CUDA_ERROR : SUCCESS;
}
int ncclMemFree(void *p) { return ((int (*)(void *))driver("cuMemFree_v2"))(p) ? CUDA_ERROR : SUCCESS; }
int ncclCommWindowRegister(comm *c, void *p, size_t n, void **window, int flags) {
	(void)n; (void)flags;
	int r = trouble("ncclCommWindowRegister", c->rank);
	if (!r && meet(c)) r = INTERNAL_ERROR;
	const char *none = getenv("FAKE_NCCL_NO_WINDOW");
	*window = r || none ? 0 : p;
	return r;
}
int ncclCommRegister(comm *c, void *p, size_t n, void **handle) { (void)n; *handle = p; return trouble("ncclCommRegister", c->rank); }
int ncclCommDeregister(comm *c, void *handle) { (void)c; return handle ? SUCCESS : INVALID_ARGUMENT; }
int ncclCommWindowDeregister(comm *c, void *window) { (void)c; (void)window; return SUCCESS; }
#endif
