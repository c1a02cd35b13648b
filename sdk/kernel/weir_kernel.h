/* What a GPU kernel that a plugin hands over is given and must do. Version 1.
 *
 * Every rank of a group launches the kernel on its caller's stream; one launch is one rank's part in one all-reduce.
 * Launches of a rank follow each other in stream order. The kernel must
 *
 *   - take part even if count is 0;
 *   - push data into the peers' buffers rather than read from them: reads of a peer's device memory over PCIe have been
 *     seen never to complete (buffers in host memory may be read);
 *   - never trust data that does not come, in one 8-byte store, with the flag of this call: the low 20 bits of the
 *     sequence above the 12 of the hash, which is never 0;
 *   - read control->sequence in every block on entry and have the last block out advance it by one;
 *   - look at status->abort now and then while it waits, and when it is set leave, with NaN in what it did not finish;
 *   - leave nothing behind that a later call would take for its own: flags repeat after 2^20 calls, so every slot of an
 *     inbox must have been written or cleared within that many.
 *
 * It compiles as CUDA C++ (nvcc, clang) and, but for the functions, as C. */
#ifndef WEIR_KERNEL_H
#define WEIR_KERNEL_H

#define WEIR_KERNEL_VERSION 1u
#define WEIR_MAX_RANKS 16

typedef unsigned int weir_u32;
typedef unsigned long long weir_u64;

/* A rank's state in its own device memory, all zero when prepared. It belongs to the plan and the rank, not to a kernel:
 * all functions, types and sizes of a plan share it. */
typedef struct weir_control {
  weir_u32 sequence; /* of the call to come; wraps through 0. Its lowest bit chooses between two inboxes */
  weir_u32 busy;     /* id of the launch that runs; 0 for none. Read and written with sequence, as one 64-bit word */
  weir_u32 entered;  /* blocks of the present launch that have begun */
  weir_u32 left;     /* blocks of the present launch that are done; from bit 17 on, whether one has set slow */
  weir_u32 dead;     /* not 0: the plan was aborted or has a fault, and every launch leaves at once */
  weir_u32 slow;     /* not 0: a block of the present launch has written status->waiting */
  weir_u32 asking;   /* not 0: a thread of the present launch asks the host */
  weir_u32 asked[2]; /* with WEIR_COUNT_ASKS, for tests: threads that ask the host now, and the most at a time so far */
  weir_u32 unused[23];
} weir_control;

/* What the kernel and the host tell each other, in page-locked host memory of the rank. */
typedef struct weir_status {
  volatile weir_u32 abort; /* by the host: leave */
  volatile weir_u32 fault; /* by the kernel: one of weir_fault; the first stays */
  /* By the kernel, when it has waited for long: the sequence in the upper half, in the lower 1 + the rank whose data has
   * not come. 0 again when the call is done. */
  volatile weir_u64 waiting;
  weir_u32 unused[28];
} weir_status;

enum weir_fault {
  WEIR_FAULT_NONE = 0,
  WEIR_FAULT_VERSION = 1,   /* the kernel was built for another version of this header */
  WEIR_FAULT_IN_FLIGHT = 2, /* another launch of this rank's plan was running */
  WEIR_FAULT_SIZE = 3       /* count is more than the buffer or the grid is made for */
};

/* The one argument, by value. */
typedef struct weir_call {
  weir_u32 version; /* WEIR_KERNEL_VERSION */
  weir_u32 rank;
  weir_u32 world; /* 1 to WEIR_MAX_RANKS */
  weir_u32 hash;  /* 1 to 4095: of type, op and byte count, so that ranks that disagree never match */
  weir_u32 id;    /* of this eager call or graph node; not 0 */
  weir_u32 unused;
  weir_u64 count; /* elements */
  const void *in; /* aligned to the element only, as is out; the same as out or apart from it */
  void *out;
  weir_control *control;
  weir_status *status;
  weir_u64 buffer_bytes;         /* of each buffer */
  void *buffers[WEIR_MAX_RANKS]; /* by rank, as this rank reaches them; zero when prepared. The rank's own among them */
} weir_call;

#if defined(__CUDACC__) || defined(__CUDA__) /* nvcc; clang, with or without CUDA's headers */

/* The protocol, ready to use. A kernel calls weir_begin once in every block, pushes with weir_put, polls with weir_get and
 * weir_wait, clears what weir_stale names, and calls weir_end once in every block. All threads of a block must come to
 * weir_begin and weir_end.
 *
 * Entry. Thread 0 of each block issues three operations that need no order among them:
 *   ticket = atomic add of 1 to entered
 *   word   = atomic or of id << 32 to the 64-bit word of sequence (lower half) and busy (upper half)
 *   dead   = load
 * A launch that overlaps another of the same rank finds busy of another id. If it has the same id (two graphs made from one
 * capture), it finds a ticket beyond its grid, unless the blocks of the two happen to take turns; the peers' data then fails
 * to come. It reports IN_FLIGHT, kills the plan and leaves without having pushed.
 *
 * Exit. When all threads of a block are done its thread 0 adds 1 to left. The last block out resets entered and left and
 * writes sequence + 1 and busy = 0, in one store: no block can see busy free with the old sequence. Stream order makes this
 * visible to the rank's next launch.
 *
 * Two inboxes, by the parity of the sequence, are enough if a launch ends only when data of every rank of this call has
 * come (by way of other ranks is enough): who pushes for call s has ended s - 1, so all ranks have begun s - 1, so in stream
 * order all have ended s - 2, which was the last to read the inbox that s writes. */

#if defined(__CUDACC__)
#define WEIR_MEMBER __device__ __forceinline__
#define WEIR_GLOBAL extern "C" __global__
#define WEIR_BOUNDS(threads) __launch_bounds__(threads)
#define WEIR_SHARED __shared__
#else
#define WEIR_MEMBER __attribute__((device, always_inline)) inline
#define WEIR_GLOBAL extern "C" __attribute__((global))
#define WEIR_BOUNDS(threads) __attribute__((launch_bounds(threads)))
#define WEIR_SHARED __attribute__((shared))
#endif
#define WEIR_DEVICE static WEIR_MEMBER

/* Where a thread stands, in the x dimension, which is the only one that launches have. */
WEIR_DEVICE weir_u32 weir_thread() { weir_u32 v; asm("mov.u32 %0, %%tid.x;" : "=r"(v)); return v; }
WEIR_DEVICE weir_u32 weir_threads() { weir_u32 v; asm("mov.u32 %0, %%ntid.x;" : "=r"(v)); return v; }
WEIR_DEVICE weir_u32 weir_block() { weir_u32 v; asm("mov.u32 %0, %%ctaid.x;" : "=r"(v)); return v; }
WEIR_DEVICE weir_u32 weir_blocks() { weir_u32 v; asm("mov.u32 %0, %%nctaid.x;" : "=r"(v)); return v; }

#define WEIR_SLOW_BIT 17 /* of left: a grid has at most 65536 blocks */

/* Of a block: sequence, whether to leave, and what it adds to left. */
static WEIR_SHARED weir_u32 weir_said[3];

WEIR_DEVICE void weir_die(const weir_call &call) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], 1;" ::"l"(&call.control->dead) : "memory");
}

/* Enters. fits: count is no more than buffer and grid are made for. False: fill what the block would write with NaN and
 * return from the kernel, without weir_end. sequence and flag are those of the call. */
WEIR_DEVICE bool weir_begin(const weir_call &call, bool fits, weir_u32 &sequence, weir_u32 &flag) {
  if (weir_thread() == 0) {
    weir_u32 ticket, dead;
    weir_u64 word;
    asm volatile("atom.relaxed.gpu.global.or.b64 %0, [%1], %2;"
                 : "=l"(word) : "l"(&call.control->sequence), "l"((weir_u64)call.id << 32) : "memory");
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(ticket) : "l"(&call.control->entered) : "memory");
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(dead) : "l"(&call.control->dead) : "memory");
    weir_u32 busy = (weir_u32)(word >> 32), fault = WEIR_FAULT_NONE;
    if (call.version != WEIR_KERNEL_VERSION) fault = WEIR_FAULT_VERSION;
    else if (ticket >= weir_blocks() || (busy != 0 && busy != call.id)) fault = WEIR_FAULT_IN_FLIGHT;
    else if (!fits) fault = WEIR_FAULT_SIZE;
    if (fault && !dead) {
      weir_die(call);
      if (call.status->fault == WEIR_FAULT_NONE) call.status->fault = fault;
    }
    weir_said[0] = (weir_u32)word;
    weir_said[1] = dead | fault;
    weir_said[2] = 1;
  }
  __syncthreads();
  sequence = weir_said[0];
  flag = sequence << 12 | call.hash;
  return weir_said[1] == 0;
}

/* Leaves. */
WEIR_DEVICE void weir_end(const weir_call &call, weir_u32 sequence) {
  __syncthreads();
  if (weir_thread() != 0) return;
  weir_u32 before, own = weir_said[2];
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(&call.control->left), "r"(own) : "memory");
  weir_u32 now = before + own;
  if ((now & ((1u << WEIR_SLOW_BIT) - 1)) != weir_blocks()) return;
  if (now >> WEIR_SLOW_BIT) {
    asm volatile("fence.acq_rel.sys;" ::: "memory");
    call.status->waiting = 0;
    call.control->slow = 0;
  }
  /* One access in hardware: were busy free before left is 0, a block of a launch that overlaps could take itself for the
   * last one out of this. */
  asm volatile("st.relaxed.gpu.global.v2.b64 [%0], {%1, %2};" ::"l"(&call.control->sequence), "l"((weir_u64)(sequence + 1)), "l"(0ull) : "memory");
}

/* Two packets: 8 bytes of data as the inbox holds them, 4 with each flag. */
typedef struct weir_packets {
  weir_u64 first, second;
} weir_packets;

/* Pushes 8 bytes into 16 of an inbox, which begin at a multiple of 16. The two packets may come at different times: a vector
 * access is as many accesses as it has elements, each whole. */
WEIR_DEVICE void weir_put(void *slot, weir_u32 first, weir_u32 second, weir_u32 flag) {
  weir_u64 high = (weir_u64)flag << 32;
  asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(slot), "l"(high | first), "l"(high | second) : "memory");
}

/* What 16 bytes of an inbox hold now. */
WEIR_DEVICE weir_packets weir_get(const void *slot) {
  weir_packets p;
  asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];" : "=l"(p.first), "=l"(p.second) : "l"(slot) : "memory");
  return p;
}

/* Whether both packets are of this call. */
WEIR_DEVICE bool weir_came(const weir_packets &p, weir_u32 flag) {
  return (weir_u32)(p.first >> 32) == flag && (weir_u32)(p.second >> 32) == flag;
}

WEIR_DEVICE bool weir_alive(const weir_call &call) {
  weir_u32 dead;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(dead) : "l"(&call.control->dead) : "memory");
  return dead == 0;
}

/* For tests. */
WEIR_DEVICE void weir_count_asks([[maybe_unused]] const weir_call &call, [[maybe_unused]] int by) {
#ifdef WEIR_COUNT_ASKS
  weir_u32 before;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(&call.control->asked[0]), "r"(by) : "memory");
  asm volatile("red.relaxed.gpu.global.max.u32 [%0], %1;" ::"l"(&call.control->asked[1]), "r"(before + by) : "memory");
#endif
}

/* Tells the host whom the launch waits for, and looks whether it wants the launch to leave. */
WEIR_DEVICE bool weir_ask(const weir_call &call, weir_u32 sequence, weir_u32 peer) {
  weir_u32 others;
  asm volatile("atom.relaxed.gpu.global.exch.b32 %0, [%1], 1;" : "=r"(others) : "l"(&call.control->slow) : "memory");
  if (others == 0) weir_said[2] = 1 | 1u << WEIR_SLOW_BIT; /* this block tells the last one out to take it back */
  call.status->waiting = (weir_u64)sequence << 32 | (peer + 1);
  asm volatile("fence.acq_rel.sys;" ::: "memory"); /* before the last block out writes 0 */
  return call.status->abort == 0;
}

/* To be called after every look at an inbox in which something of the peer was missing. spins is the thread's own and begins
 * as 0. False: leave.
 *
 * Every 1024 looks a thread of each warp asks the host, unless one of another warp does so now. Those that do not ask look at
 * what was found. One at a time, because reads of one word of the host come one after the other, some 0.55 microseconds each: asked by every warp of
 * a large launch they take as long as 1024 looks do. The peer would wait that long for this rank's next call, and ask the
 * host itself, so after one late call ranks would keep each other late for ever (seen on two H200s: 540 microseconds a call
 * with 896 warps and 950 with 1792, instead of 5 and 6). */
WEIR_DEVICE bool weir_wait(const weir_call &call, weir_u32 sequence, weir_u32 peer, weir_u32 &spins) {
  if ((++spins & 1023) != 0) return true;
  weir_u32 active, below, taken;
  asm volatile("activemask.b32 %0;" : "=r"(active));
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
  if (active & below) return weir_alive(call); /* one of the warp before this */
  asm volatile("atom.relaxed.gpu.global.exch.b32 %0, [%1], 1;" : "=r"(taken) : "l"(&call.control->asking) : "memory");
  if (taken) return weir_alive(call);
  weir_count_asks(call, 1);
  const bool stay = weir_ask(call, sequence, peer);
  if (!stay) weir_die(call);
  weir_count_asks(call, -1);
  asm volatile("st.relaxed.gpu.global.u32 [%0], 0;" ::"l"(&call.control->asking) : "memory");
  return stay;
}

/* Names a window of an inbox of `units` parts: those in it that the call does not use must be cleared, whatever kernel of the
 * plan runs, so that no flag is ever as old as 2^20 calls. The windows go round: they are a power of two and at most 2^17, and
 * all calls of one parity with the same (sequence >> 1) modulo that number have the same one. So within any 2^18 calls each
 * part is once in the window of a call of its parity, which either has it written anew or clears it: at call s it holds 0 or
 * a flag of one of the last 2^18 calls, so never by chance the one that s has, last used 2^20 calls ago. Clearing meets no
 * writer: who pushes into the same inbox next has ended the call after this one. units is 1 to 2^31. */
WEIR_DEVICE void weir_stale(weir_u32 sequence, weir_u32 units, weir_u32 &begin, weir_u32 &end) {
  weir_u32 zeros;
  asm("clz.b32 %0, %1;" : "=r"(zeros) : "r"(units - 1));
  weir_u32 bits = 32 - zeros; /* units is at most 2 to the power of this */
  weir_u32 width = bits > 22 ? bits - 17 : 5;
  weir_u32 window = (sequence >> 1) & (bits > width ? (1u << (bits - width)) - 1 : 0);
  begin = window << width;
  end = begin + (1u << width);
  if (end > units) end = units;
}

#endif
#endif
