// Kernels of the fake driver: a one-shot all-reduce as sdk/kernel/weir_kernel.h wants it, done by one block. What makes it
// wrong, each to be defined when it is built:
//   WRONG=RANK      that rank gets a wrong sum
//   HASTY           takes what is there and does not wait for the peers
//   DEAF            never looks at the abort word
//   CRASH=RANK      that rank's context is of no more use from call CRASH_AT (1) of this copy on
//   OTHER_VERSION   was built for another header
//   ENDLESS         never returns
#include <math.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "weir_kernel.h"

#ifndef CRASH_AT
#define CRASH_AT 1
#endif

enum { SLOW_MS = 5 };

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}
static void refuse(weir_call *c, weir_u32 fault) {
	weir_u32 none = 0;
	__atomic_compare_exchange_n((weir_u32 *)&c->status->fault, &none, fault, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
static void spoil(weir_call *c, int real) {
	for (weir_u64 i = 0; i < c->count; i++)
		if (real) ((float *)c->out)[i] = NAN; else ((int32_t *)c->out)[i] = 0;
}
// inbox is where a rank's word for another lies in that one's buffer.
static uint64_t *inbox(weir_call *c, weir_u32 owner, weir_u32 from, weir_u32 sequence) {
	weir_u64 words = c->buffer_bytes / 16 / c->world;
	return (uint64_t *)c->buffers[owner] + ((sequence & 1) * c->world + from) * words;
}

// take waits for a word of a peer; 0 if the call is to be left.
static int take(weir_call *c, weir_u32 from, weir_u64 i, weir_u32 sequence, uint32_t flag, uint32_t *data) {
	const uint64_t *at = inbox(c, c->rank, from, sequence) + i;
	double begun = 0;
	for (unsigned spins = 0;; spins++) {
		uint64_t w = __atomic_load_n(at, __ATOMIC_ACQUIRE);
		*data = w;
#ifdef HASTY
		return 1;
#endif
		if (w >> 32 == flag) return 1;
		if (spins < 200) { sched_yield(); continue; }
		usleep(50);
#ifndef DEAF
		if (c->status->abort) return 0;
#endif
		if (!begun) begun = now();
		if (now() - begun > SLOW_MS) {
			c->control->slow = 1;
			c->status->waiting = (weir_u64)sequence << 32 | (from + 1);
		}
	}
}

static void reduce(weir_call *c, int real) {
	weir_control *k = c->control;
	weir_u32 idle = 0, sequence = k->sequence, flag = (sequence & 0xfffff) << 12 | c->hash;
	if (k->dead) { spoil(c, real); return; }
	if (!__atomic_compare_exchange_n(&k->busy, &idle, c->id, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
		refuse(c, WEIR_FAULT_IN_FLIGHT);
		spoil(c, real);
		return;
	}
	weir_u64 words = c->count ? c->count : 1; // who has nothing to say says that
	int left = 0;
	if (words > c->buffer_bytes / 16 / c->world) {
		refuse(c, WEIR_FAULT_SIZE);
		left = 1;
	} else {
		for (weir_u32 r = 0; r < c->world; r++)
			for (weir_u64 i = 0; i < words; i++) {
				uint32_t data = c->count ? ((const uint32_t *)c->in)[i] : 0;
				__atomic_store_n(inbox(c, r, c->rank, sequence) + i, (uint64_t)flag << 32 | data, __ATOMIC_RELEASE);
			}
		for (weir_u64 i = 0; i < words && !left; i++) {
			float f = 0;
			uint32_t n = 0;
			for (weir_u32 r = 0; r < c->world && !left; r++) {
				uint32_t data = 0;
				float x;
				left = !take(c, r, i, sequence, flag, &data);
				memcpy(&x, &data, 4);
				f += x; n += data;
			}
#ifdef WRONG
			if (c->rank == WRONG) { f += 1; n += 1; }
#endif
			if (i < c->count && real) ((float *)c->out)[i] = f;
			if (i < c->count && !real) ((uint32_t *)c->out)[i] = n;
		}
	}
	if (left) { k->dead = 1; spoil(c, real); }
	if (k->slow) { k->slow = 0; c->status->waiting = 0; }
	k->sequence = sequence + 1;
	__atomic_store_n(&k->busy, 0, __ATOMIC_SEQ_CST);
}

static int run(weir_call *c, int real) {
#ifdef CRASH
	static int calls;
	if (c->rank == CRASH && ++calls >= CRASH_AT) return 700;
#endif
#ifdef ENDLESS
	for (;;) pause();
#endif
#ifdef OTHER_VERSION
	c->version++;
#endif
	if (c->version != WEIR_KERNEL_VERSION) { refuse(c, WEIR_FAULT_VERSION); spoil(c, real); return 0; }
	reduce(c, real);
	return 0;
}

const unsigned sum_f32_params[] = {sizeof(weir_call), 0};
int sum_f32(void **a) { return run(a[0], 1); }
const unsigned sum_i32_params[] = {sizeof(weir_call), 0};
int sum_i32(void **a) { return run(a[0], 0); }

// sum_named takes fields instead of the struct: null, in, out, count, rank, world, hash, id, buffers, control, status.
const unsigned sum_named_params[] = {8, 8, 8, 8, 4, 4, 4, 4, 8, 8, 8, 0};
#ifndef NAMED_BYTES
#define NAMED_BYTES (1 << 20)
#endif
int sum_named(void **a) {
	weir_call c = {.version = WEIR_KERNEL_VERSION, .in = *(void **)a[1], .out = *(void **)a[2], .count = *(weir_u64 *)a[3],
		.rank = *(weir_u32 *)a[4], .world = *(weir_u32 *)a[5], .hash = *(weir_u32 *)a[6], .id = *(weir_u32 *)a[7],
		.control = *(void **)a[9], .status = *(void **)a[10], .buffer_bytes = NAMED_BYTES};
	if (*(void **)a[0]) return 700;
	memcpy(c.buffers, *(void **)a[8], c.world * sizeof *c.buffers);
	return run(&c, 1);
}
