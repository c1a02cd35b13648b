package backendtest

import (
	"fmt"
	"testing"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/conformance"
)

// Benchmark measures the plan of a schedule or worker backend at message sizes in bytes, by goroutines as ranks, whatever its
// byte windows say: so an author finds where they should end. Numbers are worth something only with a core for every rank.
func Benchmark(b *testing.B, be backend.Backend, dt collective.DataType, worlds []int, sizes []int64) {
	b.Helper()
	for _, world := range worlds {
		for _, n := range sizes {
			b.Run(fmt.Sprintf("%s/%d_ranks/%s/%d_bytes", be.Info().Name, world, dt, n), func(b *testing.B) {
				x, err := conformance.NewBench(b.Context(), be, dt, world)
				if err != nil {
					b.Fatal(err)
				}
				defer x.Close()
				b.SetBytes(n)
				b.ReportAllocs()
				b.ResetTimer()
				if err := x.Run(b.N, n); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}
