/* The memory that ranks share with a worker, for workers in C and languages that read C. Version 1; docs/worker-abi.md
 * says how it is used. All numbers are in the machine's own byte order. */
#ifndef WEIR_WORKER_H
#define WEIR_WORKER_H

#include <stdint.h>

#define WEIR_WORKER_MAGIC 0x4b525744u
#define WEIR_WORKER_VERSION 1u
#define WEIR_WORKER_GREETING "WEIRWRKR"

enum weir_data_type {
  WEIR_FLOAT32, WEIR_FLOAT64, WEIR_FLOAT16, WEIR_BFLOAT16, WEIR_INT8, WEIR_UINT8, WEIR_INT32, WEIR_INT64
};

enum weir_op { WEIR_SUM, WEIR_PROD, WEIR_MIN, WEIR_MAX, WEIR_AVG };

/* What the agent sends first, with two descriptors: the control file, and the inputs, which can only be read. */
struct weir_worker_greeting {
  char greeting[8];
  uint32_t version;
  uint32_t descriptors; /* 2 */
};

/* The beginning of the control file. */
struct weir_worker_header {
  uint32_t magic, version;
  uint32_t world;        /* ranks */
  uint32_t slots;        /* of each rank, and output slots */
  uint64_t slot_bytes;
  uint64_t completions;  /* where the completion words are, one every 64 bytes, by slot */
  uint64_t records;      /* where the records are, one every 64 bytes: those of rank 0 by slot, then those of rank 1, … */
  uint64_t outputs;      /* where the output slots are */
  uint8_t unused0[16];
  uint32_t doorbell;     /* futex: changed when all ranks have filled their slots of a tile */
  uint32_t asleep;       /* number of workers that wait for the doorbell in the kernel */
  uint8_t unused1[56];
  uint32_t bell;         /* futex: the worker changes it after every completion */
  uint32_t waiting;      /* number of ranks that wait for the bell in the kernel */
  uint8_t unused2[56];
  uint32_t stop;         /* not 0: the worker is no longer wanted */
};

/* What a rank says of the tile that it has filled its slot for. The tile is stored last. */
struct weir_worker_record {
  uint64_t tile;      /* from 1, counted over all calls; it uses slot (tile - 1) % slots */
  uint64_t call;      /* number of the all-reduce */
  uint64_t bytes;     /* of the tile */
  uint64_t total;     /* of the all-reduce */
  uint32_t data_type; /* enum weir_data_type */
  uint32_t op;        /* enum weir_op */
  uint8_t unused[24];
};

/* A completion word: the lower half of the tile's number, and above it what became of the tile. */
#define WEIR_WORKER_DONE 1u
#define WEIR_WORKER_FAILED 2u

#endif
