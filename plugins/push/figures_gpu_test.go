package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/tests/require"
)

const (
	chain  = 122 // all-reduces of a verify pass
	passes = 60

	mostMilliseconds = 100 // for one figure
)

// perNode is the median time of a node of a graph of `chain` nodes a rank, in microseconds.
func (g *gpu) perNode(x cuda.GraphExec) float64 {
	g.t.Helper()
	begin, end := must(g.NewEvent(true))(g.t), must(g.NewEvent(true))(g.t)
	var all []float64
	spent := float32(0)
	for i := 0; i < passes && (i < 5 || spent < mostMilliseconds); i++ {
		g.check(g.Record(begin, g.main), g.Launch(x, g.main), g.Record(end, g.main), g.SynchronizeEvent(end))
		ms := must(g.Elapsed(begin, end))(g.t)
		if spent += ms; i >= 2 {
			all = append(all, float64(ms)*1000/chain)
		}
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// chained is the time of one all-reduce of bfloat16 in a chain of them.
func (tr *trial) chained(variant, function string, s shape, bytes int64) float64 {
	tr.t.Helper()
	from := tr.source
	from.variant = variant
	if len(tr.ranks) > len(tr.contexts) && !tr.fitsAtOnce(tr.gpu.function(from, function), s.grid, s.block) {
		return 0
	}
	for i := range tr.contexts { // not while capturing
		tr.on(i)
		tr.gpu.function(from, function)
	}
	tr.on(0)
	return tr.perNode(tr.capture(nothing, func(r *rank) {
		for range chain {
			in := tr.arena[r.rank]
			launch(tr.gpu, tr.gpu.function(from, function), s.grid, s.block, r.stream, tr.call(r, collective.BFloat16, bytes/2, in, in+cuda.Pointer(tr.most+256)))
		}
	}, nothing))
}

// TestGPUShapes tries shapes, with eight ranks on one GPU or one on each of WEIR_PUSH_DEVICES: WEIR_PUSH_SHAPES=1.
func TestGPUShapes(t *testing.T) {
	if os.Getenv("WEIR_PUSH_SHAPES") == "" {
		t.Skip("set WEIR_PUSH_SHAPES=1 to try shapes")
	}
	g := openGPU(t)
	world := len(g.contexts)
	sizes := map[string][]int64{
		"oneshot": {14, 64, 112, 224, 448}, "twoshot": {28, 112, 448, 1024, 4096},
		"hoststaged_oneshot": {1, 14, 64}, "hoststaged_twoshot": {14, 64, 224, 1024},
	}
	if world == 1 {
		world = 8
	}
	for _, b := range backends() {
		tr := newTrial(g, b, "", world)
		for _, name := range []string{"oneshot", "twoshot", "hoststaged_oneshot", "hoststaged_twoshot"} {
			if !strings.HasPrefix(name, b.Info().Name) {
				continue
			}
			for _, kib := range sizes[name] {
				units := kib << 10 / unitBytes
				if strings.HasSuffix(name, "twoshot") {
					units = ceil(units, int64(world))
				}
				fmt.Printf("%-20s %5d KiB:%s\n", name, kib, tr.shapes(name, units, kib<<10))
			}
		}
		tr.verdict([]step{{}})
	}
}

// shapes are times by shape.
func (tr *trial) shapes(name string, units, bytes int64) string {
	tr.t.Helper()
	line, seen := "", map[shape]bool{}
	for _, block := range []int64{64, 128, 256, 512} {
		for _, each := range []int64{1, 2, 4} {
			s := shape{int(ceil(units, block*each)), int(block)}
			if seen[s] {
				continue
			}
			seen[s] = true
			if us := tr.chained("", name+"_bfloat16", s, bytes); us > 0 {
				line += fmt.Sprintf(" %d×%d %.2f", s.grid, s.block, us)
			}
		}
	}
	return line
}

// floor is what an all-reduce cannot be faster than here: its parts.
type floor struct{ empty, shape, pingpong float64 }

// sum: the chain with the same loads and stores but without waiting, and a flag's way for each phase.
func (f floor) sum(phases float64) float64 { return f.shape + phases*f.pingpong }

// TestGPUFigures prints the table of docs/kernels.md: WEIR_PUSH_FIGURES=1.
func TestGPUFigures(t *testing.T) {
	if os.Getenv("WEIR_PUSH_FIGURES") == "" {
		t.Skip("set WEIR_PUSH_FIGURES=1 to measure")
	}
	g := openGPU(t)
	const world = 8
	one, two, host := newTrial(g, backends()[0], "", world), newTrial(g, backends()[1], "", world), newTrial(g, backends()[2], "", world)
	empty := g.perNode(one.capture(nothing, func(r *rank) {
		for range chain {
			launch(g, g.function(checks(), "empty"), 1, 32, r.stream, task{})
		}
	}, nothing))
	way := func(at cuda.Pointer) float64 {
		const rounds = 10000
		begin, end := must(g.NewEvent(true))(t), must(g.NewEvent(true))(t)
		g.check(g.Record(begin, g.main))
		launch(g, g.function(checks(), "pingpong"), 2, 32, g.main, task{in: at, count: rounds})
		g.check(g.Record(end, g.main), g.SynchronizeEvent(end))
		return float64(must(g.Elapsed(begin, end))(t)) * 1000 / rounds / 2
	}
	_, hostWords := g.allocHost(256)
	device, pinned := way(g.alloc(256)), way(hostWords)
	fmt.Printf("empty chain of %d nodes on %d streams: %.2f µs a node; a flag's way: %.2f µs, through host memory %.2f µs\n", chain, world, empty, device, pinned)
	fmt.Printf("%-20s %9s %9s %9s %9s %7s\n", "", "size", "measured", "shape", "floor", "ratio")
	for _, c := range []struct {
		tr     *trial
		phases float64
		way    float64
		kib    []int64
	}{
		{one, 1, device, []int64{1, 14, 28, 84, 224, 448}},
		{two, 2, device, []int64{14, 28, 84, 224, 448, 1024, 4096}},
		{host, 0, pinned, []int64{1, 14, 84, 224, 1024}},
	} {
		for _, kib := range c.kib {
			row := c.tr.row(collective.BFloat16, kib<<10)
			s := shape{row.Grid, row.Block}
			phases := lo.Ternary(c.phases > 0, c.phases, lo.Ternary(kib<<10 <= hostOneShot(world), 1.0, 2.0))
			us := c.tr.chained("", row.Function, s, kib<<10)
			f := floor{empty, c.tr.chained("PUSH_SHAPE_ONLY", row.Function, s, kib<<10), c.way}
			fmt.Printf("%-20s %5d KiB %9.2f %9.2f %9.2f %6.2f×  %d×%d\n", strings.TrimSuffix(row.Function, "_bfloat16"), kib, us, f.shape, f.sum(phases),
				us/f.sum(phases), s.grid, s.block)
		}
	}
	one.verdict([]step{{}})
	two.verdict([]step{{}})
}

// TestGPULate prints what calls take before and after one for which a rank came 20 ms late, with two ranks on one GPU or one on each
// of WEIR_PUSH_DEVICES: WEIR_PUSH_FIGURES=1.
func TestGPULate(t *testing.T) {
	if os.Getenv("WEIR_PUSH_FIGURES") == "" {
		t.Skip("set WEIR_PUSH_FIGURES=1 to measure")
	}
	for _, b := range backends() {
		tr := newTrial(openGPU(t), b, "", 2)
		for _, kib := range []int64{14, 224, 448} {
			before := tr.calls(kib<<10, 0)
			fmt.Printf("%-10s %4d KiB: %7.2f µs a call, after a late one %7.2f\n", b.Info().Name, kib, before, tr.calls(kib<<10, 20*time.Millisecond))
		}
		tr.verdict([]step{{}})
	}
}

// calls is the time of one of a chain of eager calls, of which rank 1 begins the first so much later than rank 0.
func (tr *trial) calls(bytes int64, late time.Duration) float64 {
	tr.t.Helper()
	row := tr.row(collective.BFloat16, bytes)
	start := func(r *rank) {
		tr.on(r.device)
		in := tr.arena[r.rank]
		launch(tr.gpu, tr.gpu.function(tr.source, row.Function), row.Grid, row.Block, r.stream,
			tr.call(r, collective.BFloat16, bytes/2, in, in+cuda.Pointer(tr.most+256)))
	}
	first := tr.ranks[0]
	tr.on(first.device)
	begin, end := must(tr.NewEvent(true))(tr.t), must(tr.NewEvent(true))(tr.t)
	start(first)
	time.Sleep(late)
	start(tr.ranks[1])
	for range chain {
		start(first)
		start(tr.ranks[1])
	}
	tr.on(first.device)
	tr.check(tr.Record(begin, first.stream))
	for range chain {
		start(first)
		start(tr.ranks[1])
	}
	tr.on(first.device)
	tr.check(tr.Record(end, first.stream), tr.SynchronizeEvent(end))
	tr.on(0)
	return float64(must(tr.Elapsed(begin, end))(tr.t)) * 1000 / chain
}

// TestGPULinks prints what windows.go is made from: the algorithms by size, over the links of as many GPUs as WEIR_PUSH_DEVICES
// says, a rank on each: WEIR_PUSH_LINKS=1.
func TestGPULinks(t *testing.T) {
	if os.Getenv("WEIR_PUSH_LINKS") == "" {
		t.Skip("set WEIR_PUSH_LINKS=1 to measure links")
	}
	g := openGPU(t)
	world := len(g.contexts)
	if world < 2 {
		require.Missing(t, "gpus", "WEIR_PUSH_DEVICES says fewer than two")
	}
	trials := lo.Map(backends(), func(b backend.Backend, _ int) *trial { return newTrial(g, b, "", world) })
	fmt.Printf("%d GPUs, µs: %12s %9s %9s\n", world, "oneshot", "twoshot", "hoststaged")
	for bytes := int64(1 << 10); bytes <= twoShotKernel.most; bytes *= 2 {
		for _, size := range []int64{bytes, bytes * 7 / 4} {
			line := fmt.Sprintf("%9s", backend.Size(size))
			for _, tr := range trials {
				us := 0.0
				if size <= tr.most {
					row := tr.row(collective.BFloat16, size)
					us = tr.chained("", row.Function, shape{row.Grid, row.Block}, size)
				}
				line += fmt.Sprintf(" %9.2f", us)
			}
			fmt.Println(line)
		}
	}
	for _, tr := range trials {
		tr.verdict([]step{{}})
	}
}
