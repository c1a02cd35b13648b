/* Two-shot: rank r adds up the r-th part of all messages in rank order (reduce-scatter) and sends it to the others
 * (all-gather). The sum is rounded before it is sent, so that all ranks have the same bits. */
#ifndef PUSH_TWOSHOT_H
#define PUSH_TWOSHOT_H

#include "inbox.h"

/* Slots of a half: first those of the reduce-scatter, then those of the all-gather; `part` for each pair of ranks. */
template <int W, use U> struct twoshot_slots {
  weir_u32 world, part, first;
  WEIR_MEMBER twoshot_slots(const weir_call &call, weir_u32 world)
      : world(world), part(half_slots(call) / (U == inbox ? 2 * world : world + 1)), first(0) {}
  WEIR_MEMBER void *scattered(const weir_call &call, weir_u32 from, weir_u32 to, weir_u32 i) const {
    return slot(call, U == inbox ? to : from, first + (U == inbox ? from : to) * part + i);
  }
  WEIR_MEMBER void *gathered(const weir_call &call, weir_u32 from, weir_u32 to, weir_u32 i) const {
    return slot(call, U == inbox ? to : from, first + (U == inbox ? world + from : world) * part + i);
  }
};

/* Units of the part that rank r adds up; each rank's but the last ranks' is `part`. */
WEIR_DEVICE weir_u32 length(weir_u32 units, weir_u32 part, weir_u32 r) {
  weir_u32 begin = r * part;
  return begin >= units ? 0 : units - begin < part ? units - begin : part;
}

template <class T, int W, use U> WEIR_DEVICE void twoshot(const weir_call &call) {
  const int N = team<W>::most;
  const team<W> t(call);
  const message<T> m(call);
  twoshot_slots<W, U> at(call, t.world);
  const weir_u32 thread = weir_block() * weir_threads() + weir_thread(), stride = weir_blocks() * weir_threads();
  const bool fits = m.units() <= (weir_u64)at.part * t.world;
  const weir_u32 units = fits ? (weir_u32)m.units() : 0, part = (units + t.world - 1) / t.world;

  unit next[N]; /* the thread's units of all parts, on their way while the block enters; by rank after this one */
#pragma unroll
  for (weir_u32 k = 0; k < N; k++)
    if (t.has(k) && thread < part) next[k] = m.read(t.after(k) * part + thread);
  dawdle();
  waiter w = {0, 0, 0, false};
  if (!weir_begin(call, fits, w.sequence, w.flag)) {
    m.give_up();
    return;
  }
  at.first = (w.sequence & 1) * half_slots(call);
  const unit own = next[0];
  for (weir_u32 i = thread; i < part;) {
#pragma unroll
    for (weir_u32 k = 1; k < N; k++)
      if (t.has(k) && t.after(k) * part + i < units) weir_put(at.scattered(call, t.rank, t.after(k), i), next[k].word[0], next[k].word[1], w.flag);
    i += stride;
#pragma unroll
    for (weir_u32 k = 1; k < N; k++)
      if (t.has(k) && i < part) next[k] = m.read(t.after(k) * part + i);
  }
  const weir_u32 length_here = length(units, part, t.rank);
  clear_stale(call, w.sequence, [&](weir_u32 i) {
    const weir_u32 q = i / at.part, of = i % at.part, r = q < t.world ? q : q - t.world;
    if (U == inbox) return q < 2 * t.world && r != t.rank && of < (q < t.world ? length_here : length(units, part, r));
    return q < t.world ? r != t.rank && of < length(units, part, r) : q == t.world && of < length_here;
  });
  dawdle();

  for (weir_u32 i = thread; i < length_here; i += stride) {
    sum<T> s;
    const bool came = add_up<T, W>(call, t, w, i == thread ? own : m.read(t.rank * part + i),
                                   [&](weir_u32 k) { return at.scattered(call, k, t.rank, i); }, s);
    const unit r = came ? s.rounded() : m.nan();
    m.write(t.rank * part + i, r);
    if (!came) continue; /* the peers are told to leave, too */
    if (U == board) {
      weir_put(at.gathered(call, t.rank, 0, i), r.word[0], r.word[1], w.flag);
      continue;
    }
#pragma unroll
    for (weir_u32 k = 1; k < N; k++)
      if (t.has(k)) weir_put(at.gathered(call, t.rank, t.after(k), i), r.word[0], r.word[1], w.flag);
  }
  dawdle();

  const int G = team<W>::group;
  for (weir_u32 i = thread; i < part; i += stride)
    for (weir_u32 base = 0; base < t.world; base += G) {
      unit sums[G];
      weir_u32 wanted = 0;
#pragma unroll
      for (weir_u32 k = 0; k < G; k++)
        if (t.has(base + k) && base + k != t.rank && (base + k) * part + i < units) wanted |= 1u << k;
      const bool came = take<G>(call, w, base, wanted, [&](weir_u32 k) { return at.gathered(call, base + k, t.rank, i); }, sums);
#pragma unroll
      for (weir_u32 k = 0; k < G; k++)
        if (wanted >> k & 1) m.write((base + k) * part + i, came ? sums[k] : m.nan());
    }
  weir_end(call, w.sequence);
}

#endif
