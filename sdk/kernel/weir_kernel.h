/* What a GPU kernel that a plugin hands over is given and must do. Version 1.
 *
 * Every rank of a group launches the kernel on its caller's stream; one launch is one rank's part in one all-reduce.
 * Launches of a rank follow each other in stream order. The kernel must
 *
 *   - take part even if count is 0;
 *   - push data into the peers' buffers rather than read from them: reads over PCIe have been seen never to complete;
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
  weir_u32 entered;  /* blocks of the present launch that have begun */
  weir_u32 left;     /* blocks of the present launch that are done */
  weir_u32 busy;     /* id of the launch that runs; 0 for none */
  weir_u32 dead;     /* not 0: the plan has been aborted and every launch leaves at once */
  weir_u32 slow;     /* not 0: a block of the present launch has written status->waiting */
  weir_u32 unused[26];
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

#endif
