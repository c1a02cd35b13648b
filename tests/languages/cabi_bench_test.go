package languages

import (
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/weir-project/weir/tests/harness"
)

// BenchmarkCLibrary compares the cost of a call through C with one in Go, in a group of one rank, where nobody is waited for:
// the least of five runs of each, in turns.
func BenchmarkCLibrary(b *testing.B) {
	c := compileC(b, "testdata/cabi/cost.c")
	least := map[string]float64{}
	for range 5 {
		for _, p := range []struct {
			unit    string
			program []string
			figure  *regexp.Regexp
			scale   float64
		}{
			{"Go-ns/call", []string{filepath.Join(harness.Bin, "programs", "calls"), "-calls", "400000"}, regexp.MustCompile(`([\d.]+) µs each`), 1000},
			{"C-ns/call", []string{c}, regexp.MustCompile(`([\d.]+)`), 1},
		} {
			out := harness.WeirRun(b, nil, append([]string{"-n", "1", "--"}, p.program...)...)
			m := p.figure.FindStringSubmatch(out)
			if m == nil {
				b.Fatalf("no figure in %q", out)
			}
			ns, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				b.Fatal(err)
			}
			if old, ok := least[p.unit]; !ok || ns*p.scale < old {
				least[p.unit] = ns * p.scale
			}
		}
	}
	for unit, ns := range least {
		b.ReportMetric(ns, unit)
	}
}
