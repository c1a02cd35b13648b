/* Functions for every data type, NAME_TYPE, of a world size that is compiled in: PUSH_WORLD, 0 for any. */
#ifndef PUSH_ENTRY_H
#define PUSH_ENTRY_H

#ifndef PUSH_WORLD
#define PUSH_WORLD 0
#endif

#define PUSH_THREADS 512 /* of a block, at most */

#define PUSH_FUNCTION(name, algorithm, use, type) \
  WEIR_GLOBAL WEIR_BOUNDS(PUSH_THREADS) void name##_##type(const weir_call call) { algorithm<type, PUSH_WORLD, use>(call); }

#define PUSH_FUNCTIONS(name, algorithm, use)     \
  PUSH_FUNCTION(name, algorithm, use, float32)   \
  PUSH_FUNCTION(name, algorithm, use, float16)   \
  PUSH_FUNCTION(name, algorithm, use, bfloat16)

#endif
