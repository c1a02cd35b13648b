package cuda

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/native/dl"
	"github.com/weir-project/weir/sdk/native/nccl"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/harness"
	"github.com/weir-project/weir/tests/ondevice"
	"github.com/weir-project/weir/tests/require"
)

// busyNCCL does nothing either, but passes over as much code and data as a library and a driver do, so that what a call
// needs of the caller's has left the first-level caches when the next one comes.
const busyNCCL = `
#include <string.h>
#include <time.h>
#define B(k) x = x & (1u << (k) % 31) ? x * 3 + (k) : x ^ (x >> 5) + (k) * 77; memory[((k) * 4919u & 2047) * 64] += x;
#define B4(k) B(k) B(k + 1) B(k + 2) B(k + 3)
#define B16(k) B4(k) B4(k + 4) B4(k + 8) B4(k + 12)
#define B64(k) B16(k) B16(k + 16) B16(k + 32) B16(k + 48)
#define B256(k) B64(k) B64(k + 64) B64(k + 128) B64(k + 192)
static volatile unsigned char memory[1 << 17];
int ncclAllReduce(const char *src, char *dst, unsigned long n, int type, int op, void *comm, void *stream) {
	if (src != dst) memcpy(dst, src, 4 * n); // float32 on one rank
	unsigned x = n;
	B256(0) B256(256) B256(512) B256(768) B256(1024) B256(1280) B256(1536) B256(1792)
	return x == 12345;
}
static long now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}
long loop(char *src, char *dst, unsigned long n, int type, int op, void *comm, void *stream, long calls) {
	int (*volatile f)(const char *, char *, unsigned long, int, int, void *, void *) = ncclAllReduce;
	long start = now();
	for (long i = 0; i < calls; i++)
		if (f(src, dst, n, type, op, comm, stream)) return -1;
	return now() - start;
}
`

// BenchmarkDeviceEnqueueCold is what Weir adds to a call from C whose library empties the first-level caches: the median of
// the differences between loops in turns, in ns.
func BenchmarkDeviceEnqueueCold(b *testing.B) {
	const calls = 100
	a := harness.FakeGPUs(b, 1)
	path := require.Library(b, "libbusy.so", busyNCCL+idleRest)
	j := harness.StartAgent(b, 1, nil, library(path, "2.28.9"))
	s, err := rank.Join(context.Background(), rank.Options{Socket: j.Agent.Socket(), Rank: 0, WorldSize: 1, Device: "0"})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	p, err := ondevice.New(a, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	g := s.World()
	p.Src = p.Dst
	lib, err := dl.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	loop, err := lib.Symbol("loop")
	if err != nil {
		b.Fatal(err)
	}
	api, err := nccl.Bind(lib)
	if err != nil {
		b.Fatal(err)
	}
	if err := p.Sum(g, p.Dst, p.Src, 100); err != nil {
		b.Fatal(err)
	}
	one, lane := dl.NewSequence(1), p.NewLane(p.Context)
	fill := func(s *dl.Step) {
		api.FillAllReduce(s, uintptr(p.Src), uintptr(p.Dst), 100, nccl.TypeOf(collective.Float32), nccl.OpOf(collective.Sum), 8, uintptr(p.Stream))
	}
	times := func(f func()) func() int64 {
		return func() int64 {
			start := time.Now()
			for range calls {
				f()
			}
			return int64(time.Since(start))
		}
	}
	ways := []func() int64{
		func() int64 {
			return int64(dl.Call(loop, uintptr(p.Src), uintptr(p.Dst), 100, 7, 0, 8, uintptr(p.Stream), calls))
		},
		times(func() { fill(one.Step(0)); one.Run(0) }),
		times(func() { fill(lane.Target()); _, _, _ = lane.Run(p.Stream) }),
		times(func() {
			if err := p.Sum(g, p.Dst, p.Src, 100); err != nil {
				b.Fatal(err)
			}
		}),
	}
	var over [4][]float64
	for b.Loop() {
		first := ways[0]()
		over[0] = append(over[0], float64(first)/calls)
		for i, w := range ways[1:] {
			over[i+1] = append(over[i+1], float64(w()-first)/calls)
		}
	}
	for i, name := range []string{"C-ns", "Go-ns", "questions-ns", "Weir-ns"} {
		slices.Sort(over[i])
		b.ReportMetric(over[i][len(over[i])/2], name)
	}
}
