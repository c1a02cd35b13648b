/* A plugin of Weir in C: a worker, which does all-reduces in its own process. Link weir_plugin.c and call weir_serve.
 *
 * gRPC is spoken by the program weir-bridge, which weir_serve starts: it is the one named by the variable WEIR_BRIDGE, or
 * lies beside this program, or is found in PATH. */
#ifndef WEIR_PLUGIN_H
#define WEIR_PLUGIN_H

#include <stdint.h>

#include "weir_worker.h"

/* A part of an all-reduce. The memory is shared with the ranks: it may be used until reduce returns, and the inputs can only
 * be read. */
struct weir_tile {
  uint64_t call;            /* number of the all-reduce within the group */
  enum weir_data_type type; /* of the elements */
  enum weir_op op;
  uint32_t world;           /* ranks */
  uint64_t bytes;           /* of each input, and of the output */
  const void *const *in;    /* by rank */
  void *out;
};

struct weir_plugin {
  /* What the backend is and needs: the JSON of plugin.proto's Backend, with its name and requirements. */
  const char *backend;
  const char *version;
  uint64_t slot_bytes; /* largest part of a message that is handed over at once; a multiple of 64 */
  uint32_t slots;      /* with several a rank fills one while the worker works on another */

  /* Combines the inputs into the output. It is called by a thread for each group. Not 0 ends the service of the group, whose
   * ranks go on with another backend. */
  int (*reduce)(const struct weir_tile *tile);
};

/* Serves until the engine ends this process or is gone, and returns the process's exit code. Nothing may be printed on
 * stdout before; what is printed on stderr goes to the engine's log, as information. */
int weir_serve(const struct weir_plugin *plugin);

/* Writes a line of up to 1000 bytes to the engine's log, at the level "error", "warn", "info" or "debug". Any thread may call
 * it. Say why before reduce returns an error: `weir plugins test` shows the first error when a group's service has ended. */
void weir_log(const char *level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The completion word of a tile. */
static inline uint64_t weir_completion(uint64_t tile, uint32_t state) { return (uint64_t)state << 32 | (uint32_t)tile; }

/* Where things are; the files are mapped at control and inputs. */
static inline uint32_t weir_slot(const struct weir_worker_header *h, uint64_t tile) { return (uint32_t)((tile - 1) % h->slots); }
static inline uint64_t weir_completion_at(const struct weir_worker_header *h, uint32_t slot) { return h->completions + 64ull * slot; }
static inline uint64_t weir_record_at(const struct weir_worker_header *h, uint32_t rank, uint32_t slot) {
  return h->records + 64ull * ((uint64_t)rank * h->slots + slot);
}
static inline uint64_t weir_output_at(const struct weir_worker_header *h, uint32_t slot) { return h->outputs + slot * h->slot_bytes; }
static inline uint64_t weir_input_at(const struct weir_worker_header *h, uint32_t rank, uint32_t slot) {
  return ((uint64_t)rank * h->slots + slot) * h->slot_bytes;
}

#endif
