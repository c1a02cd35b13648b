/* A backend in C: this process adds up what the ranks put into shared memory.
 *
 * To make it yours, change what main says it needs, and what reduce does with a tile. */
#include "weir_plugin.h"

#define FOLD(T, ACCUMULATE)                                                       \
  for (uint64_t i = 0; i < tile->bytes / sizeof(T); i++) {                        \
    T a = ((const T *)tile->in[0])[i];                                            \
    for (uint32_t r = 1; r < tile->world; r++) { /* in the order of the ranks */  \
      T b = ((const T *)tile->in[r])[i];                                          \
      a = (T)(ACCUMULATE);                                                        \
    }                                                                             \
    ((T *)tile->out)[i] = a;                                                      \
  }                                                                               \
  return 0;

#define FOR_EACH_OP(T, U)                                                         \
  switch (tile->op) {                                                             \
  case WEIR_SUM: FOLD(T, (U)a + (U)b)                                             \
  case WEIR_PROD: FOLD(T, (U)a * (U)b)                                            \
  case WEIR_MIN: FOLD(T, a != a || b < a ? b : a) /* a NaN gives way to a number */                                           \
  case WEIR_MAX: FOLD(T, a != a || b > a ? b : a)                                           \
  default: return 1; /* the engine does not send what the requirements leave out */ \
  }

static int reduce(const struct weir_tile *tile) {
  switch (tile->type) {
  case WEIR_FLOAT32: FOR_EACH_OP(float, float)
  case WEIR_FLOAT64: FOR_EACH_OP(double, double)
  case WEIR_INT32: FOR_EACH_OP(int32_t, uint32_t) /* unsigned integers wrap, signed ones must not overflow */
  case WEIR_INT64: FOR_EACH_OP(int64_t, uint64_t)
  default: return 1;
  }
}

int main(void) {
  static const struct weir_plugin plugin = {
      .backend = "{\"name\": \"c-adder\","
                 " \"description\": \"a C program adds up what the ranks put into shared memory\","
                 " \"priority\": -150," /* the ranks are faster by themselves */
                 " \"requirements\": {"
                 "   \"memories\": [\"host\"],"
                 "   \"data_types\": [\"float32\", \"float64\", \"int32\", \"int64\"],"
                 "   \"ops\": [\"sum\", \"prod\", \"min\", \"max\"],"
                 "   \"scope\": \"one_host\","
                 "   \"deterministic\": true}}",
      .version = "0.1.0",
      .slot_bytes = 256 << 10,
      .slots = 2,
      .reduce = reduce,
  };
  return weir_serve(&plugin);
}
