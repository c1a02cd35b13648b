/* Where ranks leave data for one another in their buffers, and how they wait for it.
 *
 * A buffer has two halves by the parity of the sequence, each of slots of 16 bytes: a unit with its flags. Slots are numbered
 * by unit, whatever the alignment of a rank's own message. There are two uses of a buffer:
 *   inbox  the peers push into the rank's buffer, each into its own part of it, and the rank polls at home;
 *   board  the rank writes its own buffer and the peers read it there: for host memory, where every copy of the data crosses
 *          PCIe once more, and where no GPU is nearer to a buffer than the others. */
#ifndef PUSH_INBOX_H
#define PUSH_INBOX_H

#include "element.h"

enum use { inbox, board };

/* Of which ranks, W of them; 0: as many as the call says. What of other ranks is in registers at once is of a group of ranks: of
 * all, or of 8. */
template <int W> struct team {
  enum { most = W ? W : WEIR_MAX_RANKS, group = W ? W : 8 };
  weir_u32 rank, world;
  WEIR_MEMBER team(const weir_call &call) : rank(call.rank), world(W ? W : call.world) {}
  WEIR_MEMBER bool has(weir_u32 k) const { return k < world; }
  WEIR_MEMBER weir_u32 peers(weir_u32 base) const { /* a bit for each peer of the group that begins with rank base */
    return (((1u << world) - 1) & ~(1u << rank)) >> base & ((1u << group) - 1);
  }
  WEIR_MEMBER weir_u32 after(weir_u32 k) const {                                     /* the k-th after this rank, in a ring */
    weir_u32 r = rank + k;
    return r >= world ? r - world : r;
  }
};

/* Slots of one half of a buffer. */
WEIR_DEVICE weir_u32 half_slots(const weir_call &call) { return (weir_u32)(call.buffer_bytes >> 5); }

WEIR_DEVICE void *slot(const weir_call &call, weir_u32 owner, weir_u32 index) {
  return (char *)call.buffers[owner] + (weir_u64)index * 16;
}

/* A thread that waits: once told to leave it does not wait again. */
struct waiter {
  weir_u32 sequence, flag, spins;
  bool leaving;
};

WEIR_DEVICE bool has_come([[maybe_unused]] const weir_packets &p, [[maybe_unused]] weir_u32 flag) {
#ifdef PUSH_SHAPE_ONLY /* for measuring: the same loads and stores without waiting */
  return true;
#else
  return weir_came(p, flag);
#endif
}

/* Takes units of the ranks in `wanted`, a bit for each from rank base on, all looks at once. from(k) is where that of rank
 * base + k comes. False: told to leave. Only constants index the array, so that it stays in registers. */
template <int N, class From>
WEIR_DEVICE bool take(const weir_call &call, waiter &w, weir_u32 base, weir_u32 wanted, From from, unit *units) {
  weir_packets p[N];
#pragma unroll
  for (weir_u32 k = 0; k < N; k++)
    if (wanted >> k & 1) p[k] = weir_get(from(k));
  while (true) {
#pragma unroll
    for (weir_u32 k = 0; k < N; k++)
      if ((wanted >> k & 1) && has_come(p[k], w.flag)) {
        units[k].word[0] = (weir_u32)p[k].first;
        units[k].word[1] = (weir_u32)p[k].second;
        wanted &= ~(1u << k);
      }
    if (wanted == 0) return true;
    weir_u32 peer;
    asm("bfind.u32 %0, %1;" : "=r"(peer) : "r"(wanted));
    if (w.leaving || !weir_wait(call, w.sequence, base + peer, w.spins)) {
      w.leaving = true;
      return false;
    }
#pragma unroll
    for (weir_u32 k = 0; k < N; k++)
      if (wanted >> k & 1) p[k] = weir_get(from(k));
  }
}

/* Adds up in rank order: the rank's own unit, and those of the others as they come. from(k) is where that of rank k comes. */
template <class T, int W, class From>
WEIR_DEVICE bool add_up(const weir_call &call, const team<W> &t, waiter &w, unit own, From from, sum<T> &s) {
  const int N = team<W>::group;
  bool came = true;
  for (weir_u32 base = 0; base < t.world; base += N) {
    unit units[N];
    came &= take<N>(call, w, base, t.peers(base), [&](weir_u32 k) { return from(base + k); }, units);
#pragma unroll
    for (weir_u32 k = 0; k < N; k++) {
      const unit u = base + k == t.rank ? own : units[k];
      if (k == 0 && base == 0) s.start(u);
      else if (t.has(base + k)) s.add(u);
    }
  }
  return came;
}

/* Clears this call's window of stale slots: those for which used(index) is false. */
template <class Used> WEIR_DEVICE void clear_stale(const weir_call &call, weir_u32 sequence, Used used) {
  if (weir_block() != weir_blocks() - 1) return;
  weir_u32 begin, end, slots = half_slots(call);
  weir_stale(sequence, slots, begin, end);
  for (weir_u32 i = begin + weir_thread(); i < end; i += weir_threads())
    if (!used(i)) weir_put(slot(call, call.rank, (sequence & 1) * slots + i), 0, 0, 0);
}

/* For tests: now and then a warp dawdles, for up to 8 microseconds. */
WEIR_DEVICE void dawdle() {
#ifdef PUSH_DAWDLE
  weir_u32 clock;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(clock));
  weir_u32 h = (weir_block() * 0x9e3779b9u + (weir_thread() >> 5) * 0x85ebca6bu + clock * 0xc2b2ae35u) * 0x27d4eb2fu;
  if (h >> 29 == 0) asm volatile("nanosleep.u32 %0;" ::"r"(h >> 15 & 0x1fff));
#endif
}

#endif
