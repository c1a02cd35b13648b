// The kernels of the peer-to-peer proof. p2p.ptx beside this file is made from it:
//   clang++-19 -x cuda --cuda-device-only -nocudainc -nocudalib --cuda-gpu-arch=sm_80 -Xclang -target-feature -Xclang +ptx70 -O2 -S p2p.cu -o p2p.ptx
typedef unsigned int u32;
typedef unsigned long long u64;

#define KERNEL extern "C" __attribute__((global)) void

// report is what a kernel found, in memory of its GPU; all zero before.
struct report {
  u32 missing; // words whose flag did not come
  u32 wrong;   // words whose flag came with other data
};

// host is what a kernel and the host tell each other, in page-locked memory; all zero before.
struct host {
  u32 stop;  // by the host: leave
  u32 began; // by the kernel: it runs
};

// A word of the pattern. In engine/p2p/pattern.go it is written again, in Go.
static __attribute__((device)) u64 word(u64 seed, u64 i) {
  u64 x = seed + (i + 1) * 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

static __attribute__((device)) u32 thread() { return __nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x(); }
static __attribute__((device)) u32 threads() { return __nvvm_read_ptx_sreg_nctaid_x() * __nvvm_read_ptx_sreg_ntid_x(); }

static __attribute__((device)) void store(u64 *p, u64 v) { asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory"); }
static __attribute__((device)) u64 load(const u64 *p) {
  u64 v;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
static __attribute__((device)) u64 acquire(const u64 *p) {
  u64 v;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
static __attribute__((device)) u32 stop(const u32 *p) {
  u32 v;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
static __attribute__((device)) void add(u32 *p) { asm volatile("red.relaxed.sys.global.add.u32 [%0], 1;" ::"l"(p) : "memory"); }
static __attribute__((device)) void began(u32 *p) { asm volatile("st.relaxed.sys.global.u32 [%0], 1;" ::"l"(p) : "memory"); }

// await reads a word until its upper half is the flag, in vain if the host says stop or after so many looks. It returns
// the last word read.
static __attribute__((device)) u64 await(const u64 *p, u64 mask, u64 flag, u64 looks, const host *h) {
  u64 v = acquire(p);
  for (u64 n = 1; (v & mask) != flag && n < looks; n++) {
    if ((n & 1023) == 0 && stop(&h->stop)) break;
    v = acquire(p);
  }
  return v;
}

// push writes a pattern as the kernels of backends do: data and flag in one store of 64 bits.
KERNEL weir_p2p_push(u64 *to, u64 words, u64 seed, u64 flag) {
  for (u64 i = thread(); i < words; i += threads()) store(to + i, flag << 32 | (u32)word(seed, i));
}

// pull waits for what push writes, and checks it.
KERNEL weir_p2p_pull(const u64 *at, u64 words, u64 seed, u64 flag, u64 looks, report *r, host *h) {
  began(&h->began);
  for (u64 i = thread(); i < words; i += threads()) {
    u64 v = await(at + i, 0xffffffff00000000ull, flag << 32, looks, h);
    if (v >> 32 != flag) add(&r->missing);
    else if ((u32)v != (u32)word(seed, i)) add(&r->wrong);
  }
}

// check waits for a flag that is written after a pattern, and checks the pattern.
KERNEL weir_p2p_check(const u64 *at, u64 words, u64 seed, u64 flag, u64 looks, report *r, host *h, const u64 *flag_at) {
  began(&h->began);
  u64 v = await(flag_at, ~0ull, flag, looks, h);
  if (v != flag) {
    if (thread() == 0) add(&r->missing);
    return;
  }
  for (u64 i = thread(); i < words; i += threads())
    if (load(at + i) != word(seed, i)) add(&r->wrong);
}
