package cuda

import (
	"context"
	"testing"

	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/harness"
	"github.com/weir-project/weir/tests/ondevice"
	"github.com/weir-project/weir/tests/require"
)

// idleNCCL does nothing, so that a benchmark of a call on it measures what is Weir's.
const idleNCCL = `
#include <string.h>
int ncclAllReduce(const char *src, char *dst, unsigned long n, int type, int op, void *comm, void *stream) {
	if (src != dst) memcpy(dst, src, 4 * n); // float32 on one rank
	return 0;
}
`

// idleRest is the rest of such a library.
const idleRest = `
int ncclGetVersion(int *v) { *v = 22809; return 0; }
int ncclGetUniqueId(char *id) { return 0; }
int ncclCommInitRankScalable(void **c, int n, int r, int k, void *id, void *config) { *c = (void *)8; return 0; }
int ncclCommAbort(void *c) { return 0; }
int ncclCommDestroy(void *c) { return 0; }
int ncclCommGetAsyncError(void *c, int *e) { *e = 0; return 0; }
const char *ncclGetErrorString(int e) { return "none"; }
`

// BenchmarkDeviceEnqueue is what Weir adds to a call, the driver's part of it by a driver that does little.
func BenchmarkDeviceEnqueue(b *testing.B) {
	a := harness.FakeGPUs(b, 1)
	j := harness.StartAgent(b, 1, nil, library(require.Library(b, "libidle.so", idleNCCL+idleRest), "2.28.9"))
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
	if err := p.Sum(g, p.Dst, p.Src, 100); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := p.Sum(g, p.Dst, p.Src, 100); err != nil {
			b.Fatal(err)
		}
	}
}
