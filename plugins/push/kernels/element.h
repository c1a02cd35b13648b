/* How 8 bytes of a message (a unit: four elements of 16 bits or two of 32) are read, added up and written. */
#ifndef PUSH_ELEMENT_H
#define PUSH_ELEMENT_H

#include "weir_kernel.h"

struct unit {
  weir_u32 word[2];
};

WEIR_DEVICE float as_float(weir_u32 bits) { float f; asm("mov.b32 %0, %1;" : "=f"(f) : "r"(bits)); return f; }
WEIR_DEVICE weir_u32 as_bits(float f) { weir_u32 u; asm("mov.b32 %0, %1;" : "=r"(u) : "f"(f)); return u; }

/* Of each type: bytes of an element, elements of a word, the word of NaN, and between words and float32. */
struct float32 {
  typedef weir_u32 raw;
  enum { bytes = 4, per_word = 1 };
  static const weir_u32 nan = 0x7fffffff;
  static WEIR_MEMBER void widen(weir_u32 w, float *f) { f[0] = as_float(w); }
  static WEIR_MEMBER weir_u32 narrow(const float *f) { return as_bits(f[0]); }
};

struct bfloat16 {
  typedef unsigned short raw;
  enum { bytes = 2, per_word = 2 };
  static const weir_u32 nan = 0x7fff7fff;
  static WEIR_MEMBER void widen(weir_u32 w, float *f) {
    f[0] = as_float(w << 16);
    f[1] = as_float(w & 0xffff0000u);
  }
  static WEIR_MEMBER weir_u32 narrow(const float *f) {
    weir_u32 w;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(f[1]), "f"(f[0]));
    return w;
  }
};

struct float16 {
  typedef unsigned short raw;
  enum { bytes = 2, per_word = 2 };
  static const weir_u32 nan = 0x7fff7fff;
  static WEIR_MEMBER void widen(weir_u32 w, float *f) {
    asm("{.reg .b16 l, h;\n\tmov.b32 {l, h}, %2;\n\tcvt.f32.f16 %0, l;\n\tcvt.f32.f16 %1, h;}" : "=f"(f[0]), "=f"(f[1]) : "r"(w));
  }
  static WEIR_MEMBER weir_u32 narrow(const float *f) {
    weir_u32 w;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(f[1]), "f"(f[0]));
    return w;
  }
};

/* A sum of units in float32, in the order in which they are added. */
template <class T> struct sum {
  float f[2 * T::per_word];
  WEIR_MEMBER void start(unit u) {
    T::widen(u.word[0], f);
    T::widen(u.word[1], f + T::per_word);
  }
  WEIR_MEMBER void add(unit u) {
    sum other;
    other.start(u);
    for (int i = 0; i < 2 * T::per_word; i++) f[i] += other.f[i];
  }
  WEIR_MEMBER unit rounded() const {
    unit u = {{T::narrow(f), T::narrow(f + T::per_word)}};
    return u;
  }
};

/* A rank's buffers as units. Only the last unit is perhaps not whole. */
template <class T> struct message {
  enum { elements = 8 / T::bytes };
  const typename T::raw *in;
  typename T::raw *out;
  weir_u64 count;
  bool aligned; /* to units, both */

  WEIR_MEMBER message(const weir_call &call)
      : in((const typename T::raw *)call.in), out((typename T::raw *)call.out), count(call.count),
        aligned((((weir_u64)call.in | (weir_u64)call.out) & 7) == 0) {}

  /* At least one: a call without elements meets the other ranks as any does. */
  WEIR_MEMBER weir_u64 units() const { return count ? (count + elements - 1) / elements : 1; }

  WEIR_MEMBER unit read(weir_u32 i) const {
    unit u = {{0, 0}};
    weir_u64 at = (weir_u64)i * elements;
    if (aligned && at + elements <= count) {
      asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(u.word[0]), "=r"(u.word[1]) : "l"(in + at) : "memory");
      return u;
    }
    weir_u64 both = 0;
#pragma unroll 1 /* seldom run: keep it small */
    for (weir_u32 e = 0; e < elements && at + e < count; e++) both |= (weir_u64)in[at + e] << (e * 8 * T::bytes);
    u.word[0] = (weir_u32)both;
    u.word[1] = (weir_u32)(both >> 32);
    return u;
  }

  WEIR_MEMBER void write(weir_u32 i, unit u) const {
    weir_u64 at = (weir_u64)i * elements;
    if (aligned && at + elements <= count) {
      asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(out + at), "r"(u.word[0]), "r"(u.word[1]) : "memory");
      return;
    }
    const weir_u64 both = (weir_u64)u.word[1] << 32 | u.word[0];
#pragma unroll 1
    for (weir_u32 e = 0; e < elements && at + e < count; e++) out[at + e] = (typename T::raw)(both >> (e * 8 * T::bytes));
  }

  WEIR_MEMBER static unit nan() {
    unit u = {{T::nan, T::nan}};
    return u;
  }

  /* NaN in the thread's share of the output. */
  WEIR_MEMBER void give_up() const {
    for (weir_u64 e = (weir_u64)weir_block() * weir_threads() + weir_thread(); e < count; e += (weir_u64)weir_blocks() * weir_threads())
      out[e] = (typename T::raw)T::nan;
  }
};

#endif
