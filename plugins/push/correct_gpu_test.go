package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/tests/await"
)

// task is the argument of the kernels of testdata/check.cu.
type task struct {
	in, out              cuda.Pointer
	count                uint64
	replay, errors       cuda.Pointer
	kind                 uint32
	rank, world, step, _ uint32
}

// step is one all-reduce of a test.
type step struct {
	row     plan.Launch
	dt      collective.DataType
	count   int64
	offset  [2]int64 // of in and out, elements
	inPlace bool
}

func (s step) String() string {
	return fmt.Sprintf("%d %s at %v, in place %v, by %s %d×%d", s.count, s.dt, s.offset, s.inPlace, s.row.Function, s.row.Grid, s.row.Block)
}

// kernelOf is the plan of a backend for a number of ranks that are spread over some GPUs.
func kernelOf(t testing.TB, b backend.Backend, world, devices int) *plan.Kernel {
	t.Helper()
	g := collective.HostGroup("test", world)
	for i := range g.Ranks {
		g.Ranks[i].Device = &topology.Device{Index: i % devices, UUID: fmt.Sprintf("GPU-%d", i%devices)}
	}
	return must(b.Plan(t.Context(), backend.Request{Group: g}, backend.AllBytes()))(t).(*plan.Kernel)
}

// sourceOf is the source of a backend's kernels for a world size.
func sourceOf(b backend.Backend, world int, variant string) source {
	return source{"kernels/" + b.Info().Name + ".cu", compiledFor(world), variant}
}

// trial is a team that all-reduces what it fills itself and checks it, all on the GPU.
type trial struct {
	*team
	source         source
	kernel         *plan.Kernel
	arena          []cuda.Pointer // by rank: in, out
	replay, errors cuda.Pointer
	most           int64
}

func newTrial(g *gpu, b backend.Backend, variant string, world int) *trial {
	g.t.Helper()
	k := kernelOf(g.t, b, world, len(g.contexts))
	tr := &trial{team: newTeam(g, world, k.BufferBytes, k.Buffer == plan.HostBuffer), source: sourceOf(b, world, variant), kernel: k}
	tr.most = lo.Max(lo.Map(k.Launches, func(l plan.Launch, _ int) int64 { return l.Max }))
	for _, r := range tr.ranks {
		g.on(r.device)
		tr.arena = append(tr.arena, g.alloc(2*(tr.most+256)))
	}
	g.on(0)
	tr.replay, tr.errors = g.alloc(8), g.alloc(16)
	return tr
}

// row is the launch that serves a byte count.
func (tr *trial) row(dt collective.DataType, bytes int64) plan.Launch {
	tr.t.Helper()
	r, found := lo.Find(tr.kernel.Launches, func(l plan.Launch) bool { return l.DataType == dt.String() && l.Min <= bytes && bytes <= l.Max })
	if !found {
		tr.t.Fatalf("no launch for %d bytes of %s", bytes, dt)
	}
	return r
}

func (tr *trial) function(s step) cuda.Function {
	return tr.gpu.function(tr.source, s.row.Function)
}

// edges are steps at every edge of the launch table, in an order that alternates between small and large.
func (tr *trial) edges(dt collective.DataType) []step {
	var counts []int64
	for _, l := range tr.kernel.Launches {
		if l.DataType == dt.String() {
			size := int64(dt.Size())
			counts = append(counts, ceil(l.Min, size), ceil(l.Min, size)+1, l.Max/size-1, l.Max/size)
		}
	}
	slices.Sort(counts)
	counts = slices.Compact(counts)
	var steps []step
	for i := range counts {
		n := counts[i/2]
		if i%2 == 1 {
			n = counts[len(counts)-1-i/2]
		}
		s := step{dt: dt, count: n, row: tr.row(dt, n*int64(dt.Size())), inPlace: i%3 == 1}
		s.offset = [2]int64{int64(i) % 5, int64(i/2) % 4}
		steps = append(steps, s)
	}
	return steps
}

// run captures and replays the steps: the inputs of all are made, then each rank does its all-reduces one after the other, free
// of the other ranks, and when all are done everything is checked. Nothing else may run while ranks wait for each other: a
// kernel that wants another split of a multiprocessor's memory than one that waits there cannot begin, and virtual ranks wait
// on every multiprocessor.
func (tr *trial) run(steps []step, replays int) {
	tr.t.Helper()
	check := func(name string) cuda.Function { return tr.gpu.function(checks(), name) }
	fill, verify, next := check("fill"), check("verify"), check("next")
	work := tr.tasks(steps)
	for i := range tr.contexts { // not while capturing
		tr.on(i)
		for _, s := range steps {
			tr.function(s)
		}
	}
	tr.on(0)
	forAll := func(f cuda.Function) {
		for _, of := range work {
			for _, k := range of {
				launch(tr.gpu, f, int(min(ceil(int64(k.count), 256)+1, 64)), 256, tr.main, k)
			}
		}
	}
	x := tr.capture(func() { forAll(fill) }, func(r *rank) {
		for i, s := range steps {
			k := work[r.rank][i]
			launch(tr.gpu, tr.function(s), s.row.Grid, s.row.Block, r.stream, tr.call(r, s.dt, s.count, k.in, k.out))
		}
	}, func() {
		forAll(verify)
		launch(tr.gpu, next, 1, 1, tr.main, task{replay: tr.replay})
	})
	const at = 500
	for i := range replays {
		tr.check(tr.Launch(x, tr.main))
		if i%at == at-1 || i == replays-1 {
			tr.finish(await.For(await.Plenty))
		}
	}
	tr.verdict(steps)
}

// tasks are the fillings of every rank and step, each with memory of its own. The ranks' alignments differ.
func (tr *trial) tasks(steps []step) [][]task {
	tr.t.Helper()
	kinds := map[collective.DataType]uint32{collective.Float16: 1, collective.BFloat16: 2}
	each := lo.Map(steps, func(s step, _ int) int64 { return ceil((s.count+8+int64(len(tr.ranks)))*int64(s.dt.Size()), 256) * 256 })
	return lo.Map(tr.ranks, func(r *rank, _ int) []task {
		tr.on(r.device)
		at := tr.alloc(2 * lo.Sum(each))
		tr.on(0)
		return lo.Map(steps, func(s step, i int) task {
			if len(tr.ranks) > len(tr.contexts) && !tr.fitsAtOnce(tr.function(s), s.row.Grid, s.row.Block) {
				tr.t.Fatalf("%s: %d ranks' blocks do not fit on the GPU at once", s, len(tr.ranks))
			}
			size := int64(s.dt.Size())
			in, out := at+cuda.Pointer((s.offset[0]+int64(r.rank))*size), at+cuda.Pointer(each[i]+s.offset[1]*size)
			if s.inPlace {
				out = in
			}
			at += cuda.Pointer(2 * each[i])
			return task{
				in: in, out: out, count: uint64(s.count), replay: tr.replay, errors: tr.errors, kind: kinds[s.dt],
				rank: uint32(r.rank), world: uint32(len(tr.ranks)), step: uint32(i),
			}
		})
	})
}

// finish waits for the main stream; at the deadline it tells the ranks to leave and fails.
func (tr *trial) finish(limit time.Duration) {
	tr.t.Helper()
	if await.Poll(limit, func() bool { return must(tr.StreamDone(tr.main))(tr.t) }) {
		return
	}
	for _, r := range tr.ranks {
		tr.t.Errorf("rank %d waits: %#x, fault %d", r.rank, r.waiting(), r.fault())
		r.abort()
	}
	tr.check(tr.SynchronizeStream(tr.main))
	tr.t.FailNow()
}

// verdict fails if an element was wrong or a kernel reported a fault.
func (tr *trial) verdict(steps []step) {
	tr.t.Helper()
	got := make([]byte, 16)
	tr.check(tr.ToHost(got, tr.errors))
	if n := binary.NativeEndian.Uint64(got); n != 0 {
		tr.t.Errorf("%d wrong elements, one of them at %d, of %d steps such as %s", n, binary.NativeEndian.Uint64(got[8:])-1, len(steps), steps[0])
	}
	for _, r := range tr.ranks {
		if r.fault() != 0 || r.waiting() != 0 {
			tr.t.Errorf("rank %d: fault %d, waiting %#x", r.rank, r.fault(), r.waiting())
		}
	}
}

// TestGPUEdges: every type, many world sizes, sizes at all edges of the launch table, odd counts and misaligned buffers, in
// place and not, blocks that dawdle before they enter and between push and poll, a sequence that wraps.
func TestGPUEdges(t *testing.T) {
	for _, b := range backends() {
		for _, world := range []int{1, 2, 3, 4, 5, 8, 13, 16} {
			t.Run(fmt.Sprintf("%s/%d", b.Info().Name, world), func(t *testing.T) {
				g := openGPU(t)
				tr := newTrial(g, b, lo.Ternary(world%4 == 0, "PUSH_DAWDLE", ""), world)
				tr.preset(0xffffffff - 5)
				for _, dt := range types() {
					tr.run(tr.edges(dt), 20)
				}
				if now := tr.sequence(tr.ranks[0]); now > 1<<20 {
					t.Errorf("sequence %#x: it has not wrapped", now)
				}
			})
		}
	}
}

// TestGPUReplays: a graph that is replayed very often, with other inputs each time, ranks that run free of each other.
// WEIR_PUSH_REPLAYS says how often; the usual number is for every day.
func TestGPUReplays(t *testing.T) {
	replays := 2000
	if often := os.Getenv("WEIR_PUSH_REPLAYS"); often != "" {
		replays = must(strconv.Atoi(often))(t)
	}
	for _, b := range backends() {
		for _, world := range []int{2, 4, 8} {
			t.Run(fmt.Sprintf("%s/%d", b.Info().Name, world), func(t *testing.T) {
				if b.Info().Name == "hoststaged" {
					replays = min(replays, 5000) // PCIe is slow, and there is one for all
				}
				tr := newTrial(openGPU(t), b, "", world)
				tr.preset(0xfffff000)
				dt := types()[world%3]
				size := int64(dt.Size())
				steps := []step{
					{count: 14 << 10 / size}, {count: 1, inPlace: true}, {count: 0}, {count: 84<<10/size - 3, offset: [2]int64{1, 0}}, {count: 2001, offset: [2]int64{1, 1}, inPlace: true},
				}
				for i := range steps {
					steps[i].dt, steps[i].row = dt, tr.row(dt, max(1, steps[i].count*size))
				}
				tr.run(steps, replays)
			})
		}
	}
}

// TestGPUSizes: every count from one element on, and those at the end of the window.
func TestGPUSizes(t *testing.T) {
	for _, b := range backends() {
		for _, world := range []int{3, 8} {
			t.Run(fmt.Sprintf("%s/%d", b.Info().Name, world), func(t *testing.T) {
				tr := newTrial(openGPU(t), b, "PUSH_DAWDLE", world)
				for _, dt := range types() {
					last := tr.most / int64(dt.Size())
					counts := append(lo.RangeFrom[int64](1, 100), lo.RangeFrom[int64](last-9, 10)...)
					steps := lo.Map(counts, func(n int64, i int) step {
						return step{dt: dt, count: n, row: tr.row(dt, n*int64(dt.Size())), offset: [2]int64{n % 3, n % 2}, inPlace: i%4 == 0}
					})
					tr.run(steps, 5)
				}
			})
		}
	}
}
