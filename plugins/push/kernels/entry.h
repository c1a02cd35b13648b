/* Functions for every data type and world size: NAME_TYPE_W, where W is 2, 4 or 8, and n for any. */
#ifndef PUSH_ENTRY_H
#define PUSH_ENTRY_H

#define PUSH_THREADS 512 /* of a block, at most */

#define PUSH_FUNCTION(name, algorithm, use, type, suffix, world) \
  WEIR_GLOBAL WEIR_BOUNDS(PUSH_THREADS) void name##_##type##_##suffix(const weir_call call) { algorithm<type, world, use>(call); }

#define PUSH_TYPE(name, algorithm, use, type)        \
  PUSH_FUNCTION(name, algorithm, use, type, 2, 2)    \
  PUSH_FUNCTION(name, algorithm, use, type, 4, 4)    \
  PUSH_FUNCTION(name, algorithm, use, type, 8, 8)    \
  PUSH_FUNCTION(name, algorithm, use, type, n, 0)

#define PUSH_FUNCTIONS(name, algorithm, use)  \
  PUSH_TYPE(name, algorithm, use, float32)    \
  PUSH_TYPE(name, algorithm, use, float16)    \
  PUSH_TYPE(name, algorithm, use, bfloat16)

#endif
