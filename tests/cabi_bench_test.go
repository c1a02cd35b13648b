package tests

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/rank"
)

// BenchmarkCLibrary compares the cost of a call through C with one in Go, in a group of one rank, where nobody is waited for.
func BenchmarkCLibrary(b *testing.B) {
	b.Run("go", func(b *testing.B) {
		const batches, calls = 201, 2000
		j := startAgent(b, 1, nil, candidate("flat", &fake{}))
		errs := j.each(b, 1, func(s *rank.Session) error {
			src, dst := []float32{1, 2}, make([]float32, 2)
			var spent []float64
			for range batches {
				start := time.Now()
				for range calls {
					if err := rank.AllReduce(s.World(), dst, src, collective.Sum); err != nil {
						return err
					}
				}
				spent = append(spent, float64(time.Since(start).Nanoseconds())/calls)
			}
			slices.Sort(spent)
			b.ReportMetric(spent[batches/2], "ns/call")
			return nil
		})
		noErrors(b, errs)
	})
	b.Run("c", func(b *testing.B) {
		out := weirRun(b, nil, "-n", "1", "--", compileC(b, "testdata/cabi/cost.c"))
		ns, err := strconv.ParseFloat(strings.TrimSpace(out), 64)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(ns, "ns/call")
	})
}
