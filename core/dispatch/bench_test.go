package dispatch_test

import (
	"testing"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/dispatch"
)

// BenchmarkLookup measures what every call pays: the shapes are a usual cascade, one with multiples, and a long table.
func BenchmarkLookup(b *testing.B) {
	long := make([][]backend.Range, 32)
	for i := range long {
		long[i] = []backend.Range{{Min: 1, Max: 1 << (i + 1)}}
	}
	for name, accepted := range map[string][][]backend.Range{
		"three backends": {{{Min: 1, Max: 64 << 10}}, {{Min: 1, Max: 8 << 20}}, backend.AllBytes()},
		"multiples":      {{{Min: 16, Max: 64 << 10, Multiple: 16}}, {{Min: 1, Max: 8 << 20, Multiple: 12}}, backend.AllBytes()},
		"32 segments":    long,
	} {
		table := dispatch.NewTable(accepted)
		sizes := [...]int64{14 << 10, 84 << 10, 224 << 10, 1 << 30}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			i, sum := 0, 0
			for b.Loop() {
				sum += table.Lookup(sizes[i&3])
				i++
			}
			if sum < 0 {
				b.Fatal("nothing served")
			}
		})
	}
}
