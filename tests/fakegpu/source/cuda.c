// A CUDA driver without a GPU: device memory is files of memory that processes can share, a stream is a thread that works a
// queue, a graph a list of what was queued with what comes before what. Its environment:
//   FAKE_CUDA_DEVICES   number of devices (1)
//   FAKE_CUDA_FIRST     which of the machine's the first one is (0), as CUDA_VISIBLE_DEVICES says
//   FAKE_CUDA_MEMORY    bytes of each (1 GiB)
//   FAKE_CUDA_INIT      what cuInit returns (0)
//   FAKE_CUDA_VERSION   the CUDA version that it serves (13000)
//   FAKE_CUDA_NO_BLOCKS 1: no memory with descriptors (VMM), as on some virtual GPUs
//   FAKE_P2P            faults of writes into another device's memory, such as wrong:0>1,never:1>0 (see below)
//   FAKE_CUDA_GRAPHS    how many instantiated graphs there is room for before making one waits for the whole device (24)
//   FAKE_CUDA_RESIDENT  how many blocks of any kernel each of the four multiprocessors runs at once (32)
//   FAKE_CUDA_LATE      milliseconds after which the default stream does work that nobody waits for (1000)
//   CUDA_DEVICE_MAX_CONNECTIONS  how many queues the streams of a context share (8), as with the real driver
// Three things that a real driver may do are always done here, so that a program that leans on luck does not pass:
//   - The default stream is late: it begins work when somebody waits for it. cuMemcpyHtoD from memory that is not page-locked
//     returns when src is staged, cuMemsetD8 at once, and streams made with CU_STREAM_NON_BLOCKING do not wait for either.
//   - Work of streams that share a queue begins in the order in which it was given, so that what is behind a kernel that waits, and a
//     second piece of work of the same stream, does not begin.
//   - What waits for the whole device waits for the kernels of all its streams.
// As with the real driver, a call that may not be made while a stream is captured invalidates the capture.
//
// An image that is an ELF shared object of the host is loaded and its kernels run: int NAME(void **arguments) in stream order,
// once for all blocks, with unsigned NAME_params[] the sizes of its arguments and a 0. What it returns, if not 0, is what all
// calls return from then on, as after an illegal address. Kernels of any other image do nothing.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef int result;
enum { OK = 0, INVALID = 1, OOM = 2, NOT_INIT = 3, NO_DEVICE = 100, BAD_DEVICE = 101, BAD_CONTEXT = 201, NO_PEER = 217, BAD_HANDLE = 400,
	NOT_FOUND = 500, NOT_READY = 600, UNSUPPORTED = 801, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901,
	NOT_CAPTURING = 902, CAPTURE_ISOLATION = 905, NOT_ALIKE = 910 };

typedef struct object { void (*destroy)(void *); void *argument; int references; } object;
struct op; struct graph;
typedef struct tail { struct op **ops; int n; } tail; // what the next work comes after
typedef struct event {
	uint64_t recorded, happened;
	struct timespec at;
	uint64_t capture; // that it was recorded in; 0 for none
	struct graph *graph;
	tail tail;
	struct stream *source; // that it was recorded in last, and how much that had then been given
	uint64_t upto;
} event;
typedef struct kernel { int (*run)(void **); int n; unsigned sizes[64]; } kernel;
typedef struct op {
	enum { COPY, FILL, HOST, KERNEL, LAUNCH, GRAPH, RECORD, WAIT } kind;
	void *dst, *src;
	size_t n;
	void (*fn)(void *);
	event *event;
	uint64_t number; // of the record that a wait is for
	int device; // of the stream
	kernel *kernel;
	void **arguments;
	struct graph *graph;
	tail after; // of a graph's node
	int index, captured;
	uint64_t at, ticket; // its number in its stream, and in its queue
	struct timespec latest; // in the default stream: when it begins at the latest
	int staged; // src is the operation's own
	struct op *next;
} op;
enum { QUEUES = 32 };
typedef struct queue { int streams; uint64_t given, begun; } queue;
typedef struct graph { op **ops; int n; object **objects; int owned, pending, gone; } graph;
typedef struct context { int device; struct stream *standard; int users; queue queues[QUEUES], own; } context; // own: the default stream's
typedef struct stream {
	context *context;
	op *first, **last;
	int busy, ended, status, blocking;
	queue *queue;
	uint64_t put, due; // how many operations it was given, and how many of them somebody waits for
	uint64_t capture;
	int mode;
	graph *graph;
	tail tail;
	pthread_t thread;
	struct stream *next;
} stream;
typedef struct block { char *start; size_t n; int device, host, fd; struct block *next; } block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int started, devices = 1;
static size_t memory = (size_t)1 << 30, used[64];
static context contexts[64];
static block *blocks;
static stream *streams;
static uint64_t captures;
static long launches;
static int sticky; // what every call returns from now on
static __thread context *current;
static __thread int mode;

static long number(const char *name, long otherwise) {
	const char *s = getenv(name);
	return s && *s ? atol(s) : otherwise;
}

result cuInit(unsigned flags) {
	(void)flags;
	result r = number("FAKE_CUDA_INIT", 0);
	if (r) return r;
	devices = number("FAKE_CUDA_DEVICES", 1);
	memory = number("FAKE_CUDA_MEMORY", 1L << 30);
	for (int i = 0; i < 64; i++) contexts[i].device = i;
	started = 1;
	return OK;
}
result cuDriverGetVersion(int *v) { *v = number("FAKE_CUDA_VERSION", 13000); return OK; }
result cuDeviceGetCount(int *n) { *n = devices; return started ? OK : NOT_INIT; }
result cuDeviceGet(int *d, int i) {
	if (!started) return NOT_INIT;
	if (i < 0 || i >= devices) return BAD_DEVICE;
	*d = i;
	return OK;
}
result cuDeviceGetName(char *s, int n, int d) { snprintf(s, n, "Fake GPU %d", d); return OK; }
result cuDeviceGetUuid_v2(unsigned char *u, int d) { memset(u, 0xfa, 16); u[0] = d + number("FAKE_CUDA_FIRST", 0); return OK; }
result cuDeviceGetPCIBusId(char *s, int n, int d) { snprintf(s, n, "0000:%02X:00.0", (int)(0x10 + d + number("FAKE_CUDA_FIRST", 0)) & 0xff); return OK; }
result cuDeviceGetAttribute(int *v, int a, int d) { (void)d; *v = a == 75 ? 9 : a == 16 ? 4 : 0; return OK; }

// The faults of FAKE_P2P, from the device that writes to the one whose memory it is:
//   refuse  the driver says that there is no peer-to-peer access
//   map     the memory cannot be mapped
//   wrong   a byte arrives wrong
//   never   the last 8 bytes never arrive
//   hang    the write never ends
//   exit    the writing process ends
static int p2p_fault(const char *kind, int from, int to) {
	char wanted[64];
	const char *all = getenv("FAKE_P2P");
	snprintf(wanted, sizeof wanted, "%s:%d>%d", kind, from, to);
	for (size_t n = strlen(wanted); all && (all = strstr(all, wanted)); all++)
		if (all[n] == 0 || all[n] == ',') return 1;
	return 0;
}
result cuDeviceCanAccessPeer(int *can, int a, int b) { *can = a != b && !p2p_fault("refuse", a, b); return OK; }
result cuDeviceGetP2PAttribute(int *v, int attribute, int a, int b) { *v = attribute == 2 && a != b && !p2p_fault("refuse", a, b); return OK; }
result cuGetErrorName(int e, const char **s) {
	switch (e) {
	case INVALID: *s = "CUDA_ERROR_INVALID_VALUE"; return OK;
	case OOM: *s = "CUDA_ERROR_OUT_OF_MEMORY"; return OK;
	case NO_DEVICE: *s = "CUDA_ERROR_NO_DEVICE"; return OK;
	case BAD_CONTEXT: *s = "CUDA_ERROR_INVALID_CONTEXT"; return OK;
	case NOT_FOUND: *s = "CUDA_ERROR_NOT_FOUND"; return OK;
	case 700: *s = "CUDA_ERROR_ILLEGAL_ADDRESS"; return OK;
	case NO_PEER: *s = "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"; return OK;
	case UNSUPPORTED: *s = "CUDA_ERROR_NOT_SUPPORTED"; return OK;
	case CAPTURE_UNSUPPORTED: *s = "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"; return OK;
	case CAPTURE_INVALIDATED: *s = "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"; return OK;
	}
	return INVALID;
}
result cuGetErrorString(int e, const char **s) {
	if (e == OOM) { *s = "out of memory"; return OK; }
	return INVALID;
}

// unsafe is called by what may not be done while a stream is captured globally by any thread.
static result unsafe(void) {
	result r = OK;
	pthread_mutex_lock(&lock);
	for (stream *s = streams; s; s = s->next)
		if (s->status == 1 && s->mode == 0 && mode == 0) { s->status = 2; r = CAPTURE_UNSUPPORTED; }
	pthread_mutex_unlock(&lock);
	return r;
}

result cuDevicePrimaryCtxRetain(context **c, int d) { *c = &contexts[d]; contexts[d].users++; return OK; }
result cuDevicePrimaryCtxRelease_v2(int d) { contexts[d].users--; return OK; }
result cuCtxCreate_v2(context **c, unsigned f, int d) { (void)f; *c = calloc(1, sizeof **c); (*c)->device = d; current = *c; return OK; }
result cuCtxGetCurrent(context **c) { *c = current; return started ? OK : NOT_INIT; }
result cuCtxGetDevice(int *d) { *d = current ? current->device : 0; return current ? OK : BAD_CONTEXT; }
result cuCtxSetCurrent(context *c) { current = c; return OK; }
result cuCtxEnablePeerAccess(context *c, unsigned f) { (void)c; (void)f; return OK; }
result cuMemGetInfo_v2(size_t *f, size_t *t) {
	if (!current) return BAD_CONTEXT;
	*f = memory - used[current->device]; *t = memory;
	return OK;
}

static result broken(void) { return __atomic_load_n(&sticky, __ATOMIC_SEQ_CST); }

// file is memory that other processes can be given. Its name holds the device.
static int file(int device, size_t n) {
	char name[32];
	snprintf(name, sizeof name, "fake-cuda-%d", device);
	int fd = memfd_create(name, MFD_CLOEXEC);
	if (fd >= 0 && ftruncate(fd, n)) { close(fd); fd = -1; }
	return fd;
}
static size_t pages(size_t n) { return (n + 4095) / 4096 * 4096; }
static void *map(void *at, size_t n, int fd) {
	void *p = mmap(at, n, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), fd, 0);
	return p == MAP_FAILED ? 0 : p;
}
static result take(void **p, size_t n, int host) {
	if (!current) return BAD_CONTEXT;
	if (broken()) return broken();
	if (unsafe()) return CAPTURE_UNSUPPORTED;
	if (!n) return INVALID;
	pthread_mutex_lock(&lock);
	if (!host && used[current->device] + n > memory) { pthread_mutex_unlock(&lock); return OOM; }
	int fd = file(current->device, pages(n));
	char *start = fd < 0 ? 0 : map(0, pages(n), fd);
	if (!start) { pthread_mutex_unlock(&lock); return OOM; }
	block *b = malloc(sizeof *b);
	*b = (block){start, n, current->device, host, fd, blocks};
	blocks = b;
	if (!host) used[current->device] += n;
	pthread_mutex_unlock(&lock);
	memset(b->start, 0xcd, n);
	*p = b->start;
	return OK;
}
// forget takes what begins at an address from the list; the lock is held.
static block *forget(void *p) {
	for (block **b = &blocks; *b; b = &(*b)->next)
		if ((*b)->start == p) {
			block *gone = *b;
			*b = gone->next;
			return gone;
		}
	return 0;
}
static result drain(stream *handle, int wait);
static result give(void *p) {
	if (unsafe()) return CAPTURE_UNSUPPORTED;
	if (current && current->standard) drain(0, 1); // the real one waits for the whole device
	pthread_mutex_lock(&lock);
	block *gone = forget(p);
	if (gone && !gone->host) used[gone->device] -= gone->n;
	pthread_mutex_unlock(&lock);
	if (!gone) return INVALID;
	munmap(gone->start, pages(gone->n));
	close(gone->fd);
	free(gone);
	return OK;
}
result cuMemAlloc_v2(void **p, size_t n) { return take(p, n, 0); }
result cuMemFree_v2(void *p) { return give(p); }
result cuMemHostAlloc(void **p, size_t n, unsigned f) { (void)f; return take(p, n, 1); }
result cuMemFreeHost(void *p) { return give(p); }
result cuMemHostRegister_v2(void *p, size_t n, unsigned f) {
	(void)f;
	if (unsafe()) return CAPTURE_UNSUPPORTED;
	if (!current || (uintptr_t)p % 4096 || !n) return INVALID;
	block *b = malloc(sizeof *b);
	pthread_mutex_lock(&lock);
	*b = (block){p, n, current->device, 1, -1, blocks};
	blocks = b;
	pthread_mutex_unlock(&lock);
	return OK;
}
result cuMemHostUnregister(void *p) {
	pthread_mutex_lock(&lock);
	block *gone = forget(p);
	pthread_mutex_unlock(&lock);
	free(gone);
	return gone ? OK : INVALID;
}
result cuMemHostGetDevicePointer_v2(void **d, void *p, unsigned f) { (void)f; *d = p; return OK; }
result cuPointerGetAttribute(void *out, int attribute, char *p) {
	result r = INVALID;
	pthread_mutex_lock(&lock);
	for (block *b = blocks; b; b = b->next)
		if (p >= b->start && p < b->start + b->n) {
			r = OK;
			switch (attribute) {
			case 2: *(unsigned *)out = b->host ? 1 : 2; break;
			case 9: *(int *)out = b->device; break;
			case 11: *(void **)out = b->start; break;
			case 12: *(size_t *)out = b->n; break;
			default: r = INVALID;
			}
		}
	pthread_mutex_unlock(&lock);
	return r;
}

// Memory with descriptors (VMM). A handle is a file of its own.
typedef struct handle { int fd; size_t n; } handle;
enum { GRANULARITY = 1 << 16 };
static int no_blocks(void) { return number("FAKE_CUDA_NO_BLOCKS", 0); }
result cuMemGetAllocationGranularity(size_t *n, void *prop, int o) { (void)prop; (void)o; *n = GRANULARITY; return no_blocks() ? UNSUPPORTED : OK; }
typedef struct prop { unsigned kind, handles, location; int device; } prop;
result cuMemCreate(handle **h, size_t n, const prop *prop, uint64_t f) {
	(void)f;
	if (no_blocks()) return UNSUPPORTED;
	if (broken()) return broken();
	if (!n || n % GRANULARITY) return INVALID;
	if (n > memory) return OOM;
	*h = malloc(sizeof **h);
	**h = (handle){file(prop->device, n), n};
	return (*h)->fd < 0 ? OOM : OK;
}
result cuMemRelease(handle *h) { close(h->fd); free(h); return OK; }
result cuMemExportToShareableHandle(int *fd, handle *h, int type, uint64_t f) {
	(void)f;
	*fd = fcntl(h->fd, F_DUPFD_CLOEXEC, 0);
	return type == 1 && *fd >= 0 ? OK : INVALID;
}
result cuMemImportFromShareableHandle(handle **h, void *fd, int type) {
	off_t n = lseek((int)(intptr_t)fd, 0, SEEK_END);
	int own = fcntl((int)(intptr_t)fd, F_DUPFD_CLOEXEC, 0);
	if (type != 1 || n <= 0 || own < 0) return INVALID;
	*h = malloc(sizeof **h);
	**h = (handle){own, n};
	return OK;
}
result cuMemAddressReserve(void **p, size_t n, size_t align, void *at, uint64_t f) {
	(void)align; (void)at; (void)f;
	*p = mmap(0, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return *p == MAP_FAILED ? OOM : OK;
}
result cuMemAddressFree(void *p, size_t n) { return munmap(p, n) ? INVALID : OK; }
static void p2p_map(char *p, size_t n, int fd);
static void p2p_unmap(char *p);
result cuMemMap(void *p, size_t n, size_t offset, handle *h, uint64_t f) {
	(void)f;
	if (offset || n > h->n || !map(p, n, h->fd)) return INVALID;
	p2p_map(p, n, h->fd);
	return OK;
}
result cuMemUnmap(void *p, size_t n) { p2p_unmap(p); return mmap(p, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED ? INVALID : OK; }
static int owner(const char *p);
typedef struct may { unsigned location; int device; unsigned flags; } may;
result cuMemSetAccess(void *p, size_t n, const may *a, size_t count) {
	(void)n;
	for (size_t i = 0; i < count; i++)
		if (p2p_fault("map", a[i].device, owner(p))) return NO_PEER;
	return OK;
}

// CUDA IPC.
typedef struct ipc { union { char bytes[64]; struct { int pid, fd; size_t n; } of; } u; } ipc;
result cuIpcGetMemHandle(ipc *h, void *p) {
	result r = INVALID;
	memset(h, 0, sizeof *h);
	pthread_mutex_lock(&lock);
	for (block *b = blocks; b; b = b->next)
		if (b->start == p && b->fd >= 0) { h->u.of.pid = getpid(); h->u.of.fd = b->fd; h->u.of.n = pages(b->n); r = OK; }
	pthread_mutex_unlock(&lock);
	return r;
}
result cuIpcOpenMemHandle_v2(void **p, ipc h, unsigned f) {
	(void)f;
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/fd/%d", h.u.of.pid, h.u.of.fd);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0) return INVALID;
	*p = map(0, h.u.of.n, fd);
	close(fd);
	return *p ? OK : OOM;
}
result cuIpcCloseMemHandle(void *p) { (void)p; return OK; } // its size is not known

static void run_graph(graph *g);
static void p2p_copy(int device, void *dst, const void *src, size_t n);
static __thread int working; // the device whose stream this thread works for

// perform does an operation outside the lock.
static void perform(op *o) {
	switch (o->kind) {
	case LAUNCH: {
		working = o->device;
		int r = broken() ? 0 : o->kernel->run(o->arguments);
		if (r) __atomic_store_n(&sticky, r, __ATOMIC_SEQ_CST);
		break;
	}
	case GRAPH: run_graph(o->graph); break;
	case COPY: p2p_copy(o->device, o->dst, o->src, o->n); break;
	case FILL: memset(o->dst, (int)(intptr_t)o->src, o->n); break;
	case HOST: case KERNEL: if (o->fn) o->fn(o->src); break;
	case RECORD:
		pthread_mutex_lock(&lock);
		clock_gettime(CLOCK_MONOTONIC, &o->event->at);
		if (o->event->happened < o->number) o->event->happened = o->number;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
		break;
	case WAIT:
		pthread_mutex_lock(&lock);
		while (o->event->happened < o->number) pthread_cond_wait(&changed, &lock);
		pthread_mutex_unlock(&lock);
	}
}
// node is one of a graph that is being run.
typedef struct node { graph *g; op *o; char *done; } node;
static void *run_node(void *argument) {
	node *n = argument;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < n->o->after.n; i++)
		while (!n->done[n->o->after.ops[i]->index]) pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	perform(n->o);
	pthread_mutex_lock(&lock);
	n->done[n->o->index] = 1;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return 0;
}
static void drop(graph *g);
// run_graph gives every node a thread if there are branches, so that those run together.
static void run_graph(graph *g) {
	int chain = 1;
	for (int i = 0; i < g->n; i++) chain = chain && (i ? g->ops[i]->after.n == 1 && g->ops[i]->after.ops[0] == g->ops[i - 1] : !g->ops[i]->after.n);
	if (chain) {
		for (int i = 0; i < g->n; i++) perform(g->ops[i]);
	} else {
		node *nodes = calloc(g->n, sizeof *nodes);
		pthread_t *threads = calloc(g->n, sizeof *threads);
		char *done = calloc(g->n, 1);
		for (int i = 0; i < g->n; i++) {
			nodes[i] = (node){g, g->ops[i], done};
			pthread_create(&threads[i], 0, run_node, &nodes[i]);
		}
		for (int i = 0; i < g->n; i++) pthread_join(threads[i], 0);
		free(nodes); free(threads); free(done);
	}
	pthread_mutex_lock(&lock);
	if (--g->pending == 0 && g->gone) drop(g);
	pthread_mutex_unlock(&lock);
}
static int later(struct timespec t) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return t.tv_sec > now.tv_sec || (t.tv_sec == now.tv_sec && t.tv_nsec > now.tv_nsec);
}
// held reports whether a default stream puts its next operation off.
static int held(stream *s) { return s->context->standard == s && s->first && s->first->at > s->due && later(s->first->latest); }
// hurry has a stream do what it was given up to a number; the lock is held.
static void hurry(stream *s, uint64_t upto) {
	if (s->due < upto) s->due = upto;
	pthread_cond_broadcast(&changed);
}
static void *work(void *argument) {
	stream *s = argument;
	pthread_mutex_lock(&lock);
	for (;;) {
		while ((!s->first && !s->ended) || held(s))
			if (s->first) pthread_cond_timedwait(&changed, &lock, &s->first->latest); else pthread_cond_wait(&changed, &lock);
		if (!s->first) break;
		op *o = s->first;
		if (!(s->first = o->next)) s->last = &s->first;
		s->busy = 1;
		while (s->queue->begun != o->ticket) pthread_cond_wait(&changed, &lock);
		s->queue->begun++;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
		perform(o);
		if (o->staged) free(o->src);
		if (o->kind == LAUNCH) { free(o->arguments[o->kernel->n]); free(o->arguments); }
		free(o);
		pthread_mutex_lock(&lock);
		s->busy = 0;
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&lock);
	return 0;
}
static int connections(void) {
	long n = number("CUDA_DEVICE_MAX_CONNECTIONS", 8);
	return n < 1 ? 1 : n > QUEUES ? QUEUES : n;
}
static stream *make(context *c, queue *q) {
	stream *s = calloc(1, sizeof *s);
	s->context = c;
	s->queue = q;
	q->streams++;
	s->last = &s->first;
	s->next = streams;
	streams = s;
	pthread_create(&s->thread, 0, work, s);
	pthread_detach(s->thread);
	return s;
}
// find turns a handle into a stream; the lock is held. 0, 1 and 2 are default streams.
static stream *find(stream *s) {
	if ((uintptr_t)s > 2) return s;
	if (!current) return 0;
	if (!current->standard) current->standard = make(current, &current->own);
	return current->standard;
}
// join adds to a tail what is not in it.
static void join(tail *t, const tail *more) {
	for (int i = 0; i < more->n; i++) {
		int have = 0;
		for (int k = 0; k < t->n; k++) have = have || t->ops[k] == more->ops[i];
		if (have) continue;
		t->ops = realloc(t->ops, (t->n + 1) * sizeof *t->ops);
		t->ops[t->n++] = more->ops[i];
	}
}
// captured reports whether the capture goes on; the lock is held.
static int captured(uint64_t capture) {
	for (stream *s = streams; s; s = s->next) if (s->capture == capture && s->status) return 1;
	return 0;
}
// record makes an operation part of a capture; the lock is held.
static result record(stream *s, const op *o) {
	if (o->kind == RECORD) {
		event *e = o->event;
		e->capture = s->capture; e->graph = s->graph;
		e->tail = (tail){0};
		join(&e->tail, &s->tail);
		return OK;
	}
	if (o->kind == WAIT) {
		if (o->event->capture != s->capture) { s->status = 2; return CAPTURE_ISOLATION; }
		join(&s->tail, &o->event->tail);
		return OK;
	}
	graph *g = s->graph;
	op *copy = malloc(sizeof *copy);
	*copy = *o;
	copy->next = 0; copy->captured = 1; copy->index = g->n; copy->after = s->tail;
	g->ops = realloc(g->ops, ++g->n * sizeof *g->ops);
	g->ops[g->n - 1] = copy;
	s->tail = (tail){malloc(sizeof copy), 1};
	s->tail.ops[0] = copy;
	return OK;
}
// put gives a stream an operation that is not captured.
static void put(stream *s, const op *o) {
	op *copy = malloc(sizeof *copy);
	*copy = *o;
	copy->next = 0;
	copy->at = ++s->put;
	copy->ticket = s->queue->given++;
	long late = number("FAKE_CUDA_LATE", 1000);
	clock_gettime(CLOCK_REALTIME, &copy->latest);
	copy->latest.tv_sec += late / 1000;
	if ((copy->latest.tv_nsec += late % 1000 * 1000000) >= 1000000000) { copy->latest.tv_sec++; copy->latest.tv_nsec -= 1000000000; }
	if (copy->kind == RECORD) { copy->number = ++copy->event->recorded; copy->event->capture = 0; copy->event->source = s; copy->event->upto = copy->at; }
	if (copy->kind == WAIT) {
		copy->number = copy->event->recorded;
		if (copy->event->source) hurry(copy->event->source, copy->event->upto);
	}
	*s->last = copy;
	s->last = &copy->next;
	pthread_cond_broadcast(&changed);
}
// behind has later work of a stream come after the present work of another.
static void behind(stream *s, stream *other) {
	if (!other || other == s || (!other->first && !other->busy)) return;
	event *e = calloc(1, sizeof *e); // kept: the queues name it
	put(other, &(op){.kind = RECORD, .event = e});
	put(s, &(op){.kind = WAIT, .event = e});
}
static result append(stream *s, const op *o) {
	if (!s->status && o->kind == WAIT && o->event->capture && captured(o->event->capture)) { // the stream joins the capture
		s->status = 1; s->mode = 1; s->capture = o->event->capture; s->graph = o->event->graph;
		s->tail = (tail){0};
	}
	if (s->status) return record(s, o);
	if (s->blocking) behind(s, s->context->standard);
	for (stream *other = streams; s->context->standard == s && other; other = other->next)
		if (other->blocking && other->context == s->context && !other->status) behind(s, other);
	put(s, o);
	return OK;
}
static result enqueue(stream *handle, op o) {
	if (broken()) return broken();
	pthread_mutex_lock(&lock);
	stream *s = find(handle);
	result r = s ? s->status == 2 ? CAPTURE_INVALIDATED : OK : BAD_CONTEXT;
	if (!r) { o.device = s->context->device; r = append(s, &o); }
	pthread_mutex_unlock(&lock);
	return r;
}
result cuStreamCreate(stream **s, unsigned f) {
	if (!current) return BAD_CONTEXT;
	pthread_mutex_lock(&lock);
	queue *q = current->queues;
	for (int i = 1; i < connections(); i++) if (current->queues[i].streams < q->streams) q = &current->queues[i];
	*s = make(current, q);
	(*s)->blocking = !(f & 1);
	pthread_mutex_unlock(&lock);
	return OK;
}
result cuStreamDestroy_v2(stream *s) {
	pthread_mutex_lock(&lock);
	s->ended = 1; // the memory stays: a graph or event may still name it
	s->queue->streams--;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return OK;
}
static result drain(stream *handle, int wait) {
	if (wait && unsafe()) return CAPTURE_UNSUPPORTED;
	pthread_mutex_lock(&lock);
	stream *s = find(handle);
	result r = !s ? BAD_CONTEXT : s->status ? CAPTURE_UNSUPPORTED : OK;
	if (!r) hurry(s, s->put);
	while (!r && (s->first || s->busy)) {
		if (!wait) { r = NOT_READY; break; }
		pthread_cond_wait(&changed, &lock);
	}
	pthread_mutex_unlock(&lock);
	return broken() ? broken() : r;
}
result cuStreamSynchronize(stream *s) { return drain(s, 1); }
result cuStreamQuery(stream *s) { return drain(s, 0); }
result cuCtxSynchronize(void) {
	for (stream *s = streams; s; s = s->next)
		if (s->context == current && !s->status) { result r = drain(s, 1); if (r) return r; }
	return OK;
}
result cuStreamGetCtx(stream *s, context **c) { *c = (uintptr_t)s > 2 ? s->context : current; return *c ? OK : BAD_CONTEXT; }
result cuStreamWaitEvent(stream *s, event *e, unsigned f) { (void)f; return enqueue(s, (op){.kind = WAIT, .event = e}); }
result cuEventCreate(event **e, unsigned f) { (void)f; *e = calloc(1, sizeof **e); return OK; }
result cuEventDestroy_v2(event *e) { (void)e; return OK; } // a queue may still name it
result cuEventRecord(event *e, stream *s) { return enqueue(s, (op){.kind = RECORD, .event = e}); }
result cuEventQuery(event *e) {
	pthread_mutex_lock(&lock);
	if (e->source) hurry(e->source, e->upto);
	result r = e->happened < e->recorded ? NOT_READY : OK;
	pthread_mutex_unlock(&lock);
	return broken() ? broken() : r;
}
result cuEventSynchronize(event *e) {
	if (unsafe()) return CAPTURE_UNSUPPORTED;
	pthread_mutex_lock(&lock);
	if (e->source) hurry(e->source, e->upto);
	while (e->happened < e->recorded) pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	return OK;
}
result cuEventElapsedTime(float *ms, event *a, event *b) {
	*ms = (b->at.tv_sec - a->at.tv_sec) * 1e3 + (b->at.tv_nsec - a->at.tv_nsec) / 1e6;
	return OK;
}

result cuMemcpyHtoDAsync_v2(void *d, void *s, size_t n, stream *q) { return enqueue(q, (op){.kind = COPY, .dst = d, .src = s, .n = n}); }
result cuMemcpyDtoHAsync_v2(void *d, void *s, size_t n, stream *q) { return enqueue(q, (op){.kind = COPY, .dst = d, .src = s, .n = n}); }
result cuMemcpyDtoDAsync_v2(void *d, void *s, size_t n, stream *q) { return enqueue(q, (op){.kind = COPY, .dst = d, .src = s, .n = n}); }
result cuMemsetD8Async(void *d, unsigned char v, size_t n, stream *q) { return enqueue(q, (op){.kind = FILL, .dst = d, .src = (void *)(intptr_t)v, .n = n}); }
result cuMemcpyDtoH_v2(void *d, void *s, size_t n) {
	if (!current) return BAD_CONTEXT;
	if (unsafe()) return CAPTURE_UNSUPPORTED;
	result r = cuMemcpyDtoDAsync_v2(d, s, n, 0);
	return r ? r : cuStreamSynchronize(0);
}
result cuMemcpyHtoD_v2(void *d, void *s, size_t n) {
	unsigned type = 0;
	if (cuPointerGetAttribute(&type, 2, s) == OK) return cuMemcpyDtoH_v2(d, s, n); // page-locked: it waits
	if (!current) return BAD_CONTEXT;
	if (unsafe()) return CAPTURE_UNSUPPORTED;
	void *staged = memcpy(malloc(n + 1), s, n);
	result r = enqueue(0, (op){.kind = COPY, .dst = d, .src = staged, .n = n, .staged = 1});
	if (r) free(staged);
	return r;
}
result cuMemsetD8_v2(void *d, unsigned char v, size_t n) { return unsafe() ? CAPTURE_UNSUPPORTED : cuMemsetD8Async(d, v, n, 0); }
result cuLaunchHostFunc(stream *s, void (*fn)(void *), void *a) { return enqueue(s, (op){.kind = HOST, .fn = fn, .src = a}); }
// fakeLaunch is how the fake NCCL starts what would be a kernel.
result fakeLaunch(stream *s, void (*fn)(void *), void *a) { return enqueue(s, (op){.kind = KERNEL, .fn = fn, .src = a}); }

result cuThreadExchangeStreamCaptureMode(int *m) { int was = mode; mode = *m; *m = was; return OK; }
result cuStreamBeginCapture_v2(stream *s, int m) {
	if ((uintptr_t)s <= 2) return CAPTURE_UNSUPPORTED;
	pthread_mutex_lock(&lock);
	s->status = 1; s->mode = m; s->capture = ++captures;
	s->graph = calloc(1, sizeof *s->graph);
	s->tail = (tail){0};
	pthread_mutex_unlock(&lock);
	return OK;
}
result cuStreamIsCapturing(stream *s, int *status) {
	*status = (uintptr_t)s > 2 ? s->status : 0;
	return OK;
}
result cuStreamGetCaptureInfo_v2(stream *s, int *status, uint64_t *id, graph **g, op ***deps, size_t *n) {
	*status = (uintptr_t)s > 2 ? s->status : 0;
	if (*status == 1) {
		if (id) *id = s->capture;
		if (g) *g = s->graph;
		if (deps) *deps = s->tail.ops;
		if (n) *n = s->tail.n;
	}
	return OK;
}
result cuStreamUpdateCaptureDependencies(stream *s, op **nodes, size_t n, unsigned set) {
	if (s->status != 1) return NOT_CAPTURING;
	pthread_mutex_lock(&lock);
	tail more = {nodes, n}, old = s->tail;
	s->tail = (tail){0};
	if (!set) join(&s->tail, &old);
	join(&s->tail, &more);
	pthread_mutex_unlock(&lock);
	return OK;
}
static void drop(graph *g) {
	for (int i = 0; i < g->owned; i++)
		if (--g->objects[i]->references == 0) g->objects[i]->destroy(g->objects[i]->argument);
	g->owned = 0;
}
result cuStreamEndCapture(stream *s, graph **g) {
	pthread_mutex_lock(&lock);
	int was = s->status;
	*g = was == 1 ? s->graph : 0;
	if (was == 2) drop(s->graph);
	s->status = 0;
	for (stream *other = streams; other; other = other->next)
		if (other->status && other->capture == s->capture) other->status = 0;
	pthread_mutex_unlock(&lock);
	return was == 0 ? NOT_CAPTURING : was == 2 ? CAPTURE_INVALIDATED : OK;
}
static void copy_graph(graph *y, const graph *g) {
	y->n = g->n;
	y->owned = g->owned;
	y->ops = memcpy(malloc(g->n * sizeof *y->ops + 1), g->ops, g->n * sizeof *y->ops);
	y->objects = memcpy(malloc(g->owned * sizeof *y->objects + 1), g->objects, g->owned * sizeof *y->objects);
	for (int i = 0; i < y->owned; i++) y->objects[i]->references++;
}
static int executables;
result cuGraphInstantiateWithFlags(graph **x, graph *g, uint64_t f) {
	(void)f;
	if (unsafe()) return CAPTURE_UNSUPPORTED;
	pthread_mutex_lock(&lock);
	int room = ++executables <= number("FAKE_CUDA_GRAPHS", 24);
	pthread_mutex_unlock(&lock);
	if (!room) cuCtxSynchronize();
	graph *y = calloc(1, sizeof *y);
	pthread_mutex_lock(&lock);
	copy_graph(y, g);
	pthread_mutex_unlock(&lock);
	*x = y;
	return OK;
}
// Only when no launch of it is pending, which is as far as the tests go.
result cuGraphExecUpdate(graph *x, graph *g, op **node, int *how) {
	pthread_mutex_lock(&lock);
	int alike = x->n == g->n && !x->pending;
	for (int i = 0; alike && i < g->n; i++) alike = x->ops[i]->kind == g->ops[i]->kind;
	if (alike) {
		graph old = *x;
		copy_graph(x, g);
		drop(&old);
	}
	pthread_mutex_unlock(&lock);
	*node = 0;
	*how = !alike;
	return alike ? OK : NOT_ALIKE;
}
result cuGraphLaunch(graph *x, stream *handle) {
	pthread_mutex_lock(&lock);
	stream *s = find(handle);
	result r = !s ? BAD_CONTEXT : s->status ? CAPTURE_UNSUPPORTED : broken();
	if (!r) { x->pending++; append(s, &(op){.kind = GRAPH, .graph = x}); }
	pthread_mutex_unlock(&lock);
	return r;
}
result cuGraphDestroy(graph *g) { pthread_mutex_lock(&lock); drop(g); pthread_mutex_unlock(&lock); return OK; }
result cuGraphExecDestroy(graph *g) { // what it owns stays for launches that are not done
	pthread_mutex_lock(&lock);
	g->gone = 1;
	executables--;
	if (!g->pending) drop(g);
	pthread_mutex_unlock(&lock);
	return OK;
}
result cuGraphGetNodes(graph *g, op **nodes, size_t *n) {
	if (nodes) memcpy(nodes, g->ops, *n * sizeof *nodes);
	*n = g->n;
	return OK;
}
result cuGraphNodeGetType(op *o, int *type) {
	static const int types[] = {[COPY] = 1, [FILL] = 2, [HOST] = 3, [KERNEL] = 0, [LAUNCH] = 0};
	*type = types[o->kind];
	return OK;
}
result cuUserObjectCreate(object **o, void *argument, void (*destroy)(void *), unsigned n, unsigned f) {
	(void)f;
	*o = malloc(sizeof **o);
	**o = (object){destroy, argument, n};
	return OK;
}
result cuUserObjectRelease(object *o, unsigned n) { o->references -= n; return OK; }
result cuGraphRetainUserObject(graph *g, object *o, unsigned n, unsigned f) {
	(void)n; (void)f; // always one reference, moved
	pthread_mutex_lock(&lock);
	g->objects = realloc(g->objects, ++g->owned * sizeof *g->objects);
	g->objects[g->owned - 1] = o;
	pthread_mutex_unlock(&lock);
	return OK;
}

typedef struct module { int fd; void *library; } module;
static module text; // what is no shared object
result cuModuleLoadData(module **m, const char *image) {
	if (!image) return INVALID;
	*m = &text;
	if (memcmp(image, ELFMAG, SELFMAG)) return OK;
	const Elf64_Ehdr *h = (const void *)image;
	size_t n = h->e_shoff + (size_t)h->e_shnum * h->e_shentsize; // sections come last
	module new = {memfd_create("fake-cuda-module", MFD_CLOEXEC), 0};
	char path[64];
	snprintf(path, sizeof path, "/proc/self/fd/%d", new.fd);
	if (new.fd < 0 || write(new.fd, image, n) != (ssize_t)n || !(new.library = dlopen(path, RTLD_NOW | RTLD_LOCAL))) {
		close(new.fd);
		return 200;
	}
	*m = malloc(sizeof **m);
	**m = new;
	return OK;
}
result cuModuleUnload(module *m) {
	if (m != &text) { dlclose(m->library); close(m->fd); free(m); }
	return OK;
}
typedef struct built_in { const char *name; kernel kernel; } built_in;
static built_in p2p_kernels[4];
result cuModuleGetFunction(kernel **f, module *m, const char *name) {
	static kernel nothing;
	if (!name) return INVALID;
	*f = &nothing;
	for (int i = 0; m == &text && p2p_kernels[i].name; i++)
		if (!strcmp(p2p_kernels[i].name, name)) *f = &p2p_kernels[i].kernel;
	if (m == &text) return OK;
	char sizes[256];
	snprintf(sizes, sizeof sizes, "%s_params", name);
	int (*run)(void **) = (int (*)(void **))dlsym(m->library, name);
	unsigned *n = dlsym(m->library, sizes);
	if (!run || !n) return NOT_FOUND;
	*f = calloc(1, sizeof **f);
	(*f)->run = run;
	while (n[(*f)->n]) { (*f)->sizes[(*f)->n] = n[(*f)->n]; (*f)->n++; }
	return OK;
}
result cuFuncSetAttribute(kernel *f, int a, int v) { (void)f; (void)a; (void)v; return OK; }
result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, kernel *f, int block, size_t shared) {
	(void)f; (void)block; (void)shared;
	*n = number("FAKE_CUDA_RESIDENT", 32);
	return OK;
}
result cuLaunchKernel(kernel *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, stream *s, void **args, void **extra) {
	(void)gy; (void)gz; (void)by; (void)bz; (void)shared; (void)extra;
	if (!gx || bx > 1024) return INVALID;
	__atomic_fetch_add(&launches, 1, __ATOMIC_RELAXED);
	if ((uintptr_t)f < 4096 || !f->run) return OK;
	size_t total = 0;
	for (int i = 0; i < f->n; i++) total += (f->sizes[i] + 15) / 16 * 16;
	char *values = malloc(total + 1);
	void **copy = calloc(f->n + 1, sizeof *copy);
	copy[f->n] = values;
	for (int i = 0; i < f->n; i++) {
		copy[i] = memcpy(values, args[i], f->sizes[i]);
		values += (f->sizes[i] + 15) / 16 * 16;
	}
	return enqueue(s, (op){.kind = LAUNCH, .kernel = f, .arguments = copy});
}

// Whose memory an address is, where processes share it: mappings by the device in their file's name.
typedef struct mapped { char *start; size_t n; int owner; struct mapped *next; } mapped;
static mapped *mappings;
static void p2p_map(char *p, size_t n, int fd) {
	char link[64], target[64] = {0};
	int device;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	if (readlink(link, target, sizeof target - 1) < 0 || sscanf(target, "/memfd:fake-cuda-%d", &device) != 1) return;
	pthread_mutex_lock(&lock);
	mapped *m = malloc(sizeof *m);
	*m = (mapped){p, n, device, mappings};
	mappings = m;
	pthread_mutex_unlock(&lock);
}
static void p2p_unmap(char *p) {
	pthread_mutex_lock(&lock);
	for (mapped **m = &mappings; *m; m = &(*m)->next)
		if ((*m)->start == p) { mapped *gone = *m; *m = gone->next; free(gone); break; }
	pthread_mutex_unlock(&lock);
}
// owner is the device whose memory an address is, or -1 for memory of this process alone.
static int owner(const char *p) {
	int device = -1;
	pthread_mutex_lock(&lock);
	for (mapped *m = mappings; m; m = m->next)
		if (p >= m->start && p < m->start + m->n) device = m->owner;
	pthread_mutex_unlock(&lock);
	return device;
}

// p2p_begin does what may go wrong before a write of one device into the memory of another; it returns whose memory it is.
static int p2p_begin(int device, const void *dst) {
	int to = owner(dst);
	if (to >= 0 && p2p_fault("exit", device, to)) { fprintf(stderr, "the fake device %d ends its process\n", device); _exit(9); }
	while (to >= 0 && p2p_fault("hang", device, to)) pause();
	return to;
}
static void p2p_copy(int device, void *dst, const void *src, size_t n) {
	int to = p2p_begin(device, dst);
	if (to >= 0 && n == 8 && p2p_fault("never", device, to)) return;
	memcpy(dst, src, n);
	if (to >= 0 && n > 8 && p2p_fault("wrong", device, to)) ((char *)dst)[n / 2] ^= 0x10;
}

// What the kernels of engine/p2p do. Their arguments are as there.
static uint64_t p2p_word(uint64_t seed, uint64_t i) {
	uint64_t x = seed + (i + 1) * 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}
static uint64_t p2p_await(uint64_t *p, uint64_t mask, uint64_t flag, uint32_t *host) {
	uint64_t v;
	while (((v = __atomic_load_n(p, __ATOMIC_ACQUIRE)) & mask) != flag && !__atomic_load_n(host, __ATOMIC_ACQUIRE)) sched_yield();
	return v;
}
#define ARGUMENT(i) (*(uint64_t *)a[i])
static int p2p_push(void **a) {
	uint64_t *to = (void *)ARGUMENT(0), words = ARGUMENT(1);
	int owner = p2p_begin(working, to), wrong = p2p_fault("wrong", working, owner), never = p2p_fault("never", working, owner);
	for (uint64_t i = 0; i < words - never; i++)
		__atomic_store_n(to + i, ARGUMENT(3) << 32 | ((uint32_t)p2p_word(ARGUMENT(2), i) ^ (wrong && i == words / 2 ? 0x10 : 0)), __ATOMIC_RELAXED);
	return 0;
}
static int p2p_pull(void **a) {
	uint64_t *at = (void *)ARGUMENT(0), flag = ARGUMENT(3);
	uint32_t *report = (void *)ARGUMENT(5), *host = (void *)ARGUMENT(6);
	__atomic_store_n(host + 1, 1, __ATOMIC_RELEASE);
	for (uint64_t i = 0; i < ARGUMENT(1); i++) {
		uint64_t v = p2p_await(at + i, ~0ull << 32, flag << 32, host);
		if (v >> 32 != flag) report[0]++;
		else if ((uint32_t)v != (uint32_t)p2p_word(ARGUMENT(2), i)) report[1]++;
	}
	return 0;
}
static int p2p_check(void **a) {
	uint64_t *at = (void *)ARGUMENT(0);
	uint32_t *report = (void *)ARGUMENT(5), *host = (void *)ARGUMENT(6);
	__atomic_store_n(host + 1, 1, __ATOMIC_RELEASE);
	if (p2p_await((void *)ARGUMENT(7), ~0ull, ARGUMENT(3), host) != ARGUMENT(3)) report[0]++;
	else
		for (uint64_t i = 0; i < ARGUMENT(1); i++) report[1] += at[i] != p2p_word(ARGUMENT(2), i);
	return 0;
}
#define WORDS {8, 8, 8, 8, 8, 8, 8, 8}
static built_in p2p_kernels[4] = {
	{"weir_p2p_push", {p2p_push, 4, WORDS}}, {"weir_p2p_pull", {p2p_pull, 7, WORDS}}, {"weir_p2p_check", {p2p_check, 8, WORDS}},
};
