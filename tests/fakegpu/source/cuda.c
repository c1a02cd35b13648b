// A CUDA driver without a GPU: device memory is the process's own, a stream is a thread that works a queue, a graph a list
// of what was queued. Its environment:
//   FAKE_CUDA_DEVICES   number of devices (1)
//   FAKE_CUDA_MEMORY    bytes of each (1 GiB)
//   FAKE_CUDA_INIT      what cuInit returns (0)
// As with the real driver, a call that may not be made while a stream is captured invalidates the capture.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int result;
enum { OK = 0, INVALID = 1, OOM = 2, NOT_INIT = 3, NO_DEVICE = 100, BAD_DEVICE = 101, BAD_CONTEXT = 201, BAD_HANDLE = 400,
	NOT_READY = 600, UNSUPPORTED = 801, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, NOT_CAPTURING = 902 };

typedef struct object { void (*destroy)(void *); void *argument; int references; } object;
typedef struct event { uint64_t recorded, happened; struct timespec at; } event;
typedef struct op {
	enum { COPY, FILL, HOST, KERNEL, RECORD, WAIT } kind;
	void *dst, *src;
	size_t n;
	void (*fn)(void *);
	event *event;
	uint64_t number; // of the record that a wait is for
	struct op *next;
} op;
typedef struct graph { op **ops; int n; object **objects; int owned; } graph;
typedef struct context { int device; struct stream *standard; int users; } context;
typedef struct stream {
	context *context;
	op *first, **last;
	int busy, ended, status;
	uint64_t capture;
	int mode;
	graph *graph;
	pthread_t thread;
	struct stream *next;
} stream;
typedef struct block { char *start; size_t n; int device, host; struct block *next; } block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int started, devices = 1;
static size_t memory = (size_t)1 << 30, used[64];
static context contexts[64];
static block *blocks;
static stream *streams;
static uint64_t captures;
static long launches;
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
result cuDriverGetVersion(int *v) { *v = 13000; return OK; }
result cuDeviceGetCount(int *n) { *n = devices; return started ? OK : NOT_INIT; }
result cuDeviceGet(int *d, int i) {
	if (!started) return NOT_INIT;
	if (i < 0 || i >= devices) return BAD_DEVICE;
	*d = i;
	return OK;
}
result cuDeviceGetName(char *s, int n, int d) { snprintf(s, n, "Fake GPU %d", d); return OK; }
result cuDeviceGetUuid_v2(unsigned char *u, int d) { memset(u, 0xfa, 16); u[0] = d; return OK; }
result cuDeviceGetPCIBusId(char *s, int n, int d) { snprintf(s, n, "0000:%02X:00.0", 0x10 + d); return OK; }
result cuDeviceGetAttribute(int *v, int a, int d) { (void)d; *v = a == 75 ? 9 : 0; return OK; }
result cuDeviceCanAccessPeer(int *can, int a, int b) { *can = a != b; return OK; }
result cuGetErrorName(int e, const char **s) {
	switch (e) {
	case INVALID: *s = "CUDA_ERROR_INVALID_VALUE"; return OK;
	case OOM: *s = "CUDA_ERROR_OUT_OF_MEMORY"; return OK;
	case NO_DEVICE: *s = "CUDA_ERROR_NO_DEVICE"; return OK;
	case BAD_CONTEXT: *s = "CUDA_ERROR_INVALID_CONTEXT"; return OK;
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
result cuCtxSetCurrent(context *c) { current = c; return OK; }
result cuCtxEnablePeerAccess(context *c, unsigned f) { (void)c; (void)f; return OK; }
result cuMemGetInfo_v2(size_t *f, size_t *t) {
	if (!current) return BAD_CONTEXT;
	*f = memory - used[current->device]; *t = memory;
	return OK;
}

static result take(void **p, size_t n, int host) {
	if (!current) return BAD_CONTEXT;
	if (unsafe()) return CAPTURE_UNSUPPORTED;
	if (!n) return INVALID;
	pthread_mutex_lock(&lock);
	if (!host && used[current->device] + n > memory) { pthread_mutex_unlock(&lock); return OOM; }
	block *b = malloc(sizeof *b);
	size_t whole = (n + 255) / 256 * 256;
	*b = (block){aligned_alloc(256, whole), n, current->device, host, blocks};
	blocks = b;
	if (!host) used[current->device] += n;
	pthread_mutex_unlock(&lock);
	memset(b->start, 0xcd, n);
	*p = b->start;
	return OK;
}
static result give(void *p) {
	if (unsafe()) return CAPTURE_UNSUPPORTED;
	pthread_mutex_lock(&lock);
	for (block **b = &blocks; *b; b = &(*b)->next)
		if ((*b)->start == p) {
			block *gone = *b;
			if (!gone->host) used[gone->device] -= gone->n;
			*b = gone->next;
			free(gone->start); free(gone);
			pthread_mutex_unlock(&lock);
			return OK;
		}
	pthread_mutex_unlock(&lock);
	return INVALID;
}
result cuMemAlloc_v2(void **p, size_t n) { return take(p, n, 0); }
result cuMemFree_v2(void *p) { return give(p); }
result cuMemHostAlloc(void **p, size_t n, unsigned f) { (void)f; return take(p, n, 1); }
result cuMemFreeHost(void *p) { return give(p); }
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

// perform does an operation outside the lock.
static void perform(op *o) {
	switch (o->kind) {
	case COPY: memcpy(o->dst, o->src, o->n); break;
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
static void *work(void *argument) {
	stream *s = argument;
	pthread_mutex_lock(&lock);
	for (;;) {
		while (!s->first && !s->ended) pthread_cond_wait(&changed, &lock);
		if (!s->first) break;
		op *o = s->first;
		if (!(s->first = o->next)) s->last = &s->first;
		s->busy = 1;
		pthread_mutex_unlock(&lock);
		perform(o);
		free(o);
		pthread_mutex_lock(&lock);
		s->busy = 0;
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&lock);
	return 0;
}
static stream *make(context *c) {
	stream *s = calloc(1, sizeof *s);
	s->context = c;
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
	if (!current->standard) current->standard = make(current);
	return current->standard;
}
static void append(stream *s, const op *o) {
	op *copy = malloc(sizeof *copy);
	*copy = *o;
	copy->next = 0;
	if (s->status) {
		graph *g = s->graph;
		g->ops = realloc(g->ops, ++g->n * sizeof *g->ops);
		g->ops[g->n - 1] = copy;
		return;
	}
	if (copy->kind == RECORD) copy->number = ++copy->event->recorded;
	if (copy->kind == WAIT) copy->number = copy->event->recorded;
	*s->last = copy;
	s->last = &copy->next;
	pthread_cond_broadcast(&changed);
}
static result enqueue(stream *handle, op o) {
	pthread_mutex_lock(&lock);
	stream *s = find(handle);
	result r = s ? s->status == 2 ? CAPTURE_INVALIDATED : OK : BAD_CONTEXT;
	if (!r) append(s, &o);
	pthread_mutex_unlock(&lock);
	return r;
}
result cuStreamCreate(stream **s, unsigned f) {
	(void)f;
	if (!current) return BAD_CONTEXT;
	pthread_mutex_lock(&lock);
	*s = make(current);
	pthread_mutex_unlock(&lock);
	return OK;
}
result cuStreamDestroy_v2(stream *s) {
	pthread_mutex_lock(&lock);
	s->ended = 1; // the memory stays: a graph or event may still name it
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return OK;
}
static result drain(stream *handle, int wait) {
	if (wait && unsafe()) return CAPTURE_UNSUPPORTED;
	pthread_mutex_lock(&lock);
	stream *s = find(handle);
	result r = !s ? BAD_CONTEXT : s->status ? CAPTURE_UNSUPPORTED : OK;
	while (!r && (s->first || s->busy)) {
		if (!wait) { r = NOT_READY; break; }
		pthread_cond_wait(&changed, &lock);
	}
	pthread_mutex_unlock(&lock);
	return r;
}
result cuStreamSynchronize(stream *s) { return drain(s, 1); }
result cuStreamQuery(stream *s) { return drain(s, 0); }
result cuCtxSynchronize(void) {
	for (stream *s = streams; s; s = s->next)
		if (s->context == current) { result r = drain(s, 1); if (r) return r; }
	return OK;
}
result cuStreamGetCtx(stream *s, context **c) { *c = (uintptr_t)s > 2 ? s->context : current; return *c ? OK : BAD_CONTEXT; }
result cuStreamWaitEvent(stream *s, event *e, unsigned f) { (void)f; return enqueue(s, (op){.kind = WAIT, .event = e}); }
result cuEventCreate(event **e, unsigned f) { (void)f; *e = calloc(1, sizeof **e); return OK; }
result cuEventDestroy_v2(event *e) { (void)e; return OK; } // a queue may still name it
result cuEventRecord(event *e, stream *s) { return enqueue(s, (op){.kind = RECORD, .event = e}); }
result cuEventQuery(event *e) {
	pthread_mutex_lock(&lock);
	result r = e->happened < e->recorded ? NOT_READY : OK;
	pthread_mutex_unlock(&lock);
	return r;
}
result cuEventSynchronize(event *e) {
	if (unsafe()) return CAPTURE_UNSUPPORTED;
	pthread_mutex_lock(&lock);
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
static result copy(void *d, void *s, size_t n) {
	if (!current) return BAD_CONTEXT;
	if (unsafe()) return CAPTURE_UNSUPPORTED;
	result r = cuMemcpyDtoDAsync_v2(d, s, n, 0);
	return r ? r : cuStreamSynchronize(0);
}
result cuMemcpyHtoD_v2(void *d, void *s, size_t n) { return copy(d, s, n); }
result cuMemcpyDtoH_v2(void *d, void *s, size_t n) { return copy(d, s, n); }
result cuMemsetD8_v2(void *d, unsigned char v, size_t n) {
	if (unsafe()) return CAPTURE_UNSUPPORTED;
	result r = cuMemsetD8Async(d, v, n, 0);
	return r ? r : cuStreamSynchronize(0);
}
result cuLaunchHostFunc(stream *s, void (*fn)(void *), void *a) { return enqueue(s, (op){.kind = HOST, .fn = fn, .src = a}); }
// fakeLaunch is how the fake NCCL starts what would be a kernel.
result fakeLaunch(stream *s, void (*fn)(void *), void *a) { return enqueue(s, (op){.kind = KERNEL, .fn = fn, .src = a}); }

result cuThreadExchangeStreamCaptureMode(int *m) { int was = mode; mode = *m; *m = was; return OK; }
result cuStreamBeginCapture_v2(stream *s, int m) {
	if ((uintptr_t)s <= 2) return CAPTURE_UNSUPPORTED;
	pthread_mutex_lock(&lock);
	s->status = 1; s->mode = m; s->capture = ++captures;
	s->graph = calloc(1, sizeof *s->graph);
	pthread_mutex_unlock(&lock);
	return OK;
}
result cuStreamIsCapturing(stream *s, int *status) {
	*status = (uintptr_t)s > 2 ? s->status : 0;
	return OK;
}
result cuStreamGetCaptureInfo_v2(stream *s, int *status, uint64_t *id, graph **g, void *deps, void *n) {
	(void)deps; (void)n;
	*status = (uintptr_t)s > 2 ? s->status : 0;
	if (*status == 1) { if (id) *id = s->capture; if (g) *g = s->graph; }
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
	pthread_mutex_unlock(&lock);
	return was == 0 ? NOT_CAPTURING : was == 2 ? CAPTURE_INVALIDATED : OK;
}
result cuGraphInstantiateWithFlags(graph **x, graph *g, uint64_t f) {
	(void)f;
	if (unsafe()) return CAPTURE_UNSUPPORTED;
	graph *y = calloc(1, sizeof *y);
	pthread_mutex_lock(&lock);
	*y = *g;
	y->ops = memcpy(malloc(g->n * sizeof *y->ops + 1), g->ops, g->n * sizeof *y->ops);
	y->objects = memcpy(malloc(g->owned * sizeof *y->objects + 1), g->objects, g->owned * sizeof *y->objects);
	for (int i = 0; i < y->owned; i++) y->objects[i]->references++;
	pthread_mutex_unlock(&lock);
	*x = y;
	return OK;
}
result cuGraphLaunch(graph *x, stream *handle) {
	pthread_mutex_lock(&lock);
	stream *s = find(handle);
	for (int i = 0; s && i < x->n; i++) append(s, x->ops[i]);
	pthread_mutex_unlock(&lock);
	return s ? OK : BAD_CONTEXT;
}
result cuGraphDestroy(graph *g) { pthread_mutex_lock(&lock); drop(g); pthread_mutex_unlock(&lock); return OK; }
result cuGraphExecDestroy(graph *g) { return cuGraphDestroy(g); }
result cuGraphGetNodes(graph *g, op **nodes, size_t *n) {
	if (nodes) memcpy(nodes, g->ops, *n * sizeof *nodes);
	*n = g->n;
	return OK;
}
result cuGraphNodeGetType(op *o, int *type) {
	static const int types[] = {[COPY] = 1, [FILL] = 2, [HOST] = 3, [KERNEL] = 0, [RECORD] = 7, [WAIT] = 6};
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

result cuModuleLoadData(void **m, const char *image) { *m = (void *)image; return image ? OK : INVALID; }
result cuModuleUnload(void *m) { (void)m; return OK; }
result cuModuleGetFunction(void **f, void *m, const char *name) { (void)m; *f = (void *)1; return name ? OK : INVALID; }
result cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, stream *s, void **args, void **extra) {
	(void)f; (void)gy; (void)gz; (void)by; (void)bz; (void)shared; (void)s; (void)args; (void)extra;
	if (!gx || bx > 1024) return INVALID;
	__atomic_fetch_add(&launches, 1, __ATOMIC_RELAXED);
	return OK;
}
