/* Kernels with one fault each, for tests: one-shot all-reduces of float32 by one block, a slot for every element. What is
 * wrong is in the function's name. */
#include "weir_kernel.h"

WEIR_DEVICE weir_u32 bits(float f) { return __builtin_bit_cast(weir_u32, f); }
WEIR_DEVICE float number(weir_u32 u) { return __builtin_bit_cast(float, u); }

enum { THREADS = 256 };

struct fault {
  bool deaf;   /* never looks at the abort word */
  float extra; /* added to every sum */
};

WEIR_DEVICE void exchange(const weir_call &call, fault wrong) {
  const weir_u64 slots = call.buffer_bytes / 32, part = slots / call.world, packets = call.count ? call.count : 1;
  const float *in = (const float *)call.in;
  float *out = (float *)call.out;
  weir_u32 sequence, flag, spins = 0;
  const bool begun = weir_begin(call, packets <= part, sequence, flag);
  if (!begun) {
#pragma unroll 1
    for (weir_u64 i = weir_thread(); i < call.count; i += THREADS) out[i] = __builtin_nanf("");
    return;
  }
  const weir_u64 half = (sequence & 1) * slots;
#pragma unroll 1
  for (weir_u64 i = weir_thread(); i < packets; i += THREADS)
#pragma unroll 1
    for (weir_u32 r = 0; r < call.world; r++)
      if (r != call.rank)
        weir_put((char *)call.buffers[r] + (half + call.rank * part + i) * 16, call.count ? bits(in[i]) : 0, 0, flag);

  weir_u32 begin, end;
  weir_stale(sequence, (weir_u32)slots, begin, end);
#pragma unroll 1
  for (weir_u64 i = begin + weir_thread(); i < end; i += THREADS)
    if (i / part == call.rank || i % part >= packets) weir_put((char *)call.buffers[call.rank] + (half + i) * 16, 0, 0, 0);

  bool left = false;
#pragma unroll 1
  for (weir_u64 i = weir_thread(); i < packets; i += THREADS) {
    float sum = wrong.extra;
#pragma unroll 1
    for (weir_u32 r = 0; r < call.world; r++) {
      if (r == call.rank) {
        sum += call.count ? in[i] : 0;
        continue;
      }
      const void *slot = (char *)call.buffers[call.rank] + (half + r * part + i) * 16;
      weir_packets p = weir_get(slot);
      while (!left && !weir_came(p, flag)) {
        if (!wrong.deaf) left = !weir_wait(call, sequence, r, spins);
        p = weir_get(slot);
      }
      sum += number((weir_u32)p.first);
    }
    if (i < call.count) out[i] = left ? __builtin_nanf("") : sum;
  }
  weir_end(call, sequence);
}

WEIR_GLOBAL void none(const weir_call call) { exchange(call, {false, 0}); }

WEIR_GLOBAL void wrong_sum(const weir_call call) { exchange(call, {false, call.rank == 0 ? 1.0f : 0.0f}); }

WEIR_GLOBAL void deaf(const weir_call call) { exchange(call, {true, 0}); }

WEIR_GLOBAL void illegal_address(const weir_call call) {
  if (call.rank == call.world - 1) *(volatile int *)16 = 1;
  exchange(call, {false, 0});
}

WEIR_GLOBAL void endless(const weir_call) {
  while (true) asm volatile("nanosleep.u32 1000;");
}

/* As if built for the next version of the header. */
WEIR_GLOBAL void other_header(weir_call call) {
  call.version = WEIR_KERNEL_VERSION + 1;
  exchange(call, {false, 0});
}
