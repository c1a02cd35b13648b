/* One-shot: every rank sends its whole message to every other and adds up all messages in rank order. No barrier: a packet
 * says itself that it has come. */
#ifndef PUSH_ONESHOT_H
#define PUSH_ONESHOT_H

#include "inbox.h"

template <class T, int W, use U> WEIR_DEVICE void oneshot(const weir_call &call) {
  const int N = team<W>::most;
  const team<W> t(call);
  const message<T> m(call);
  const weir_u32 half = half_slots(call), part = U == inbox ? half / t.world : half; /* slots of one source */
  const weir_u32 thread = weir_block() * weir_threads() + weir_thread(), stride = weir_blocks() * weir_threads();
  unit own = m.read(thread); /* on its way while the block enters */

  dawdle();
  waiter w = {0, 0, 0, false};
  if (!weir_begin(call, m.units() <= part, w.sequence, w.flag)) {
    m.give_up();
    return;
  }
  const weir_u32 units = (weir_u32)m.units(), first = (w.sequence & 1) * half;
  for (weir_u32 i = thread; i < units; i += stride) {
    const unit u = i == thread ? own : m.read(i);
    if (U == board) {
      weir_put(slot(call, t.rank, first + i), u.word[0], u.word[1], w.flag);
      continue;
    }
#pragma unroll
    for (weir_u32 k = 1; k < N; k++)
      if (t.has(k)) weir_put(slot(call, t.after(k), first + t.rank * part + i), u.word[0], u.word[1], w.flag);
  }
  clear_stale(call, w.sequence, [&](weir_u32 i) {
    if (U == board) return i < units;
    return i / part != t.rank && i % part < units && i / part < t.world;
  });
  dawdle();

  for (weir_u32 i = thread; i < units; i += stride) {
    sum<T> s;
    const bool came = add_up<T, W>(call, t, w, i == thread ? own : m.read(i), [&](weir_u32 k) {
      return U == inbox ? slot(call, t.rank, first + k * part + i) : slot(call, k, first + i);
    }, s);
    m.write(i, came ? s.rounded() : m.nan());
  }
  weir_end(call, w.sequence);
}

#endif
