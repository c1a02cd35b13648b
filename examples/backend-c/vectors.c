/* The test vectors of docs/worker-abi.md: 3 ranks, 2 slots of 4096 bytes. */
#include <stdio.h>

#include "weir_plugin.h"

static int wrong;

static void check(const char *what, uint64_t got, uint64_t want) {
  if (got != want) wrong = 1, printf("%s: %#llx, want %#llx\n", what, (unsigned long long)got, (unsigned long long)want);
}

int main(void) {
  static const struct weir_worker_header h = {
      .magic = WEIR_WORKER_MAGIC, .version = WEIR_WORKER_VERSION, .world = 3, .slots = 2, .slot_bytes = 4096,
      .completions = 256, .records = 384, .outputs = 4096,
  };
  const uint64_t far = (1ull << 32) + 5;
  check("slot of tile 3", weir_slot(&h, 3), 0);
  check("slot of tile 2^32 + 5", weir_slot(&h, far), 0);
  check("tile 3 done", weir_completion(3, WEIR_WORKER_DONE), 0x0000000100000003);
  check("tile 2^32 + 5 done", weir_completion(far, WEIR_WORKER_DONE), 0x0000000100000005);
  check("records", weir_record_at(&h, 0, 0), weir_completion_at(&h, h.slots));
  check("the record after the last", weir_record_at(&h, 3, 0), 768);
  check("end of the control file", weir_output_at(&h, h.slots), 12288);
  check("end of the inputs", weir_input_at(&h, h.world, 0), 24576);
  return wrong;
}
