/* Kernels of the tests: inputs that differ at every replay, made and checked where they are, and what figures are compared
 * with. */
#include "weir_kernel.h"

struct task {
  void *in, *out;
  weir_u64 count;
  weir_u64 *replay; /* how often the graph has run */
  weir_u64 *errors; /* wrong elements, and 1 + the index of one */
  weir_u32 type;    /* 0 float32, 1 float16, 2 bfloat16 */
  weir_u32 rank, world, step;
};

WEIR_DEVICE weir_u64 mixed(weir_u64 x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/* Element i of a rank: random sign and mantissa, exponents over 15 powers of two. */
WEIR_DEVICE weir_u32 element(const task &t, weir_u64 replay, weir_u32 rank, weir_u64 i) {
  weir_u64 h = mixed(mixed(replay * 1000003 + t.step) + (weir_u64)rank * 0x9e3779b97f4a7c15ull + i);
  weir_u32 sign = h & 1, power = (weir_u32)(h >> 1 & 0xffff) % 15, mantissa = (weir_u32)(h >> 32);
  if (t.type == 0) return sign << 31 | (120 + power) << 23 | (mantissa & 0x7fffff);
  if (t.type == 1) return sign << 15 | (8 + power) << 10 | (mantissa & 0x3ff);
  return sign << 15 | (120 + power) << 7 | (mantissa & 0x7f);
}

WEIR_DEVICE float number(weir_u32 type, weir_u32 bits) {
  float f;
  if (type == 1) asm("{.reg .b16 h;\n\tcvt.u16.u32 h, %1;\n\tcvt.f32.f16 %0, h;}" : "=f"(f) : "r"(bits));
  else asm("mov.b32 %0, %1;" : "=f"(f) : "r"(type == 0 ? bits : bits << 16));
  return f;
}

WEIR_DEVICE weir_u32 rounded(weir_u32 type, float f) {
  weir_u32 w;
  if (type == 0) asm("mov.b32 %0, %1;" : "=r"(w) : "f"(f));
  else if (type == 1) asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(0.0f), "f"(f));
  else asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(0.0f), "f"(f));
  return w;
}

WEIR_DEVICE weir_u64 first() { return (weir_u64)weir_block() * weir_threads() + weir_thread(); }
WEIR_DEVICE weir_u64 all() { return (weir_u64)weir_blocks() * weir_threads(); }

/* Fills in, and out with a poison that no sum is (a NaN with a mark). */
WEIR_GLOBAL void fill(task t) {
  for (weir_u64 i = first(); i < t.count; i += all()) {
    weir_u32 e = element(t, *t.replay, t.rank, i);
    if (t.type == 0) {
      ((weir_u32 *)t.out)[i] = 0xffffabcd;
      ((weir_u32 *)t.in)[i] = e;
    } else {
      ((unsigned short *)t.out)[i] = 0xffcd;
      ((unsigned short *)t.in)[i] = (unsigned short)e;
    }
  }
}

/* Compares out with the sum in rank order in float32 (the bits) and with the sum in float64 (the error bound). */
WEIR_GLOBAL void verify(task t) {
  for (weir_u64 i = first(); i < t.count; i += all()) {
    float sum = number(t.type, element(t, *t.replay, 0, i));
    double exact = sum, magnitude = sum < 0 ? -sum : sum;
    for (weir_u32 r = 1; r < t.world; r++) {
      float x = number(t.type, element(t, *t.replay, r, i));
      sum += x;
      exact += x;
      magnitude += x < 0 ? -x : x;
    }
    weir_u32 got = t.type == 0 ? ((weir_u32 *)t.out)[i] : ((unsigned short *)t.out)[i];
    double error = (double)number(t.type, got) - exact, size = exact < 0 ? -exact : exact;
    double bound = t.world * 6e-8 * magnitude + size * (t.type == 0 ? 0 : t.type == 1 ? 1.0 / 2048 : 1.0 / 256) + 1e-7;
    if (error < 0) error = -error;
    if (got != rounded(t.type, sum) || !(error <= bound)) {
      asm volatile("red.global.add.u64 [%0], 1;" ::"l"(t.errors) : "memory");
      t.errors[1] = i + 1;
    }
  }
}

/* One more replay. */
WEIR_GLOBAL void next(task t) { *t.replay += 1; }


WEIR_GLOBAL void empty(task) {}

/* Two blocks hand a flag to and fro, count times each way, between two words of 128 bytes distance at in. */
WEIR_GLOBAL void pingpong(task t) {
  weir_u64 *mine = (weir_u64 *)t.in + 16 * weir_block(), *other = (weir_u64 *)t.in + 16 * (1 - weir_block());
  if (weir_thread() != 0) return;
  for (weir_u64 i = 1; i <= t.count; i++) {
    if (weir_block() == 0) asm volatile("st.relaxed.sys.global.b64 [%0], %1;" ::"l"(other), "l"(i) : "memory");
    weir_u64 seen;
    do asm volatile("ld.relaxed.sys.global.b64 %0, [%1];" : "=l"(seen) : "l"(mine) : "memory");
    while (seen != i);
    if (weir_block() == 1) asm volatile("st.relaxed.sys.global.b64 [%0], %1;" ::"l"(other), "l"(i) : "memory");
  }
}
