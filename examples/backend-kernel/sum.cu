/* A one-shot all-reduce of float32: every rank sends its whole message to every other and adds up all of them in rank order.
 * weir_kernel.h explains the protocol, and does most of it. */
#include "weir_kernel.h"

WEIR_DEVICE weir_u32 bits(float f) { return __builtin_bit_cast(weir_u32, f); }
WEIR_DEVICE float number(weir_u64 packet) { return __builtin_bit_cast(float, (weir_u32)packet); }

/* An inbox is cut into slots of 16 bytes, each for two elements with their flags, and into as many parts as there are ranks
 * that send. There are two inboxes, used in turn. */
enum { SLOT_BYTES = 16, PER_SLOT = 2 };

WEIR_GLOBAL void sum_f32(const weir_call call) {
  const weir_u64 slots = call.buffer_bytes / SLOT_BYTES / 2, part = slots / call.world;
  const weir_u64 units = call.count ? (call.count + PER_SLOT - 1) / PER_SLOT : 1; /* who has nothing to say says that */
  const weir_u32 thread = weir_block() * weir_threads() + weir_thread(), stride = weir_blocks() * weir_threads();
  const float *in = (const float *)call.in;
  float *out = (float *)call.out;

  weir_u32 sequence, flag, spins = 0;
  if (!weir_begin(call, units <= part, sequence, flag)) {
#pragma unroll 1
    for (weir_u64 i = thread; i < call.count; i += stride) out[i] = __builtin_nanf("");
    return;
  }
  const weir_u64 inbox = (sequence & 1) * slots;

#pragma unroll 1
  for (weir_u64 i = thread; i < units; i += stride) { /* push */
    const weir_u64 at = i * PER_SLOT;
    const float a = at < call.count ? in[at] : 0, b = at + 1 < call.count ? in[at + 1] : 0;
#pragma unroll 1
    for (weir_u32 r = 0; r < call.world; r++)
      if (r != call.rank) weir_put((char *)call.buffers[r] + (inbox + call.rank * part + i) * SLOT_BYTES, bits(a), bits(b), flag);
  }

  weir_u32 begin, end; /* clear what has an old flag and nobody writes in this call */
  weir_stale(sequence, (weir_u32)slots, begin, end);
#pragma unroll 1
  for (weir_u64 i = begin + thread; i < end; i += stride)
    if (i / part == call.rank || i / part >= call.world || i % part >= units)
      weir_put((char *)call.buffers[call.rank] + (inbox + i) * SLOT_BYTES, 0, 0, 0);

  bool aborted = false;
#pragma unroll 1
  for (weir_u64 i = thread; i < units; i += stride) { /* add up what comes */
    const weir_u64 at = i * PER_SLOT;
    float a = 0, b = 0;
#pragma unroll 1
    for (weir_u32 r = 0; r < call.world; r++) {
      if (r == call.rank) {
        if (at < call.count) a += in[at];
        if (at + 1 < call.count) b += in[at + 1];
        continue;
      }
      const void *slot = (char *)call.buffers[call.rank] + (inbox + r * part + i) * SLOT_BYTES;
      weir_packets p = weir_get(slot);
      while (!aborted && !weir_came(p, flag)) {
        aborted = !weir_wait(call, sequence, r, spins);
        p = weir_get(slot);
      }
      a += number(p.first), b += number(p.second);
    }
    if (at < call.count) out[at] = aborted ? __builtin_nanf("") : a;
    if (at + 1 < call.count) out[at + 1] = aborted ? __builtin_nanf("") : b;
  }
  weir_end(call, sequence);
}
