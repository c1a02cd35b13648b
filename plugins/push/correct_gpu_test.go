package main

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/native/cuda"
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

// kernelOf is the plan of a backend for a world size.
func kernelOf(t testing.TB, b backend.Backend, world int) *plan.Kernel {
	t.Helper()
	p := must(b.Plan(t.Context(), backend.Request{Group: collective.HostGroup("test", world)}, backend.AllBytes()))(t)
	return p.(*plan.Kernel)
}

// sourceOf is the source of a backend's kernels.
func sourceOf(b backend.Backend) string { return "kernels/" + b.Info().Name + ".cu" }

// trial is a team that all-reduces what it fills itself and checks it, all on the GPU.
type trial struct {
	*team
	source, define string
	kernel         *plan.Kernel
	arena          []cuda.Pointer // by rank: in, out
	replay, errors cuda.Pointer
	most           int64
}

func newTrial(g *gpu, b backend.Backend, define string, world int) *trial {
	g.t.Helper()
	k := kernelOf(g.t, b, world)
	tr := &trial{team: newTeam(g, world, k.BufferBytes, k.Buffer == plan.HostBuffer), source: sourceOf(b), define: define, kernel: k}
	tr.most = lo.Max(lo.Map(k.Launches, func(l plan.Launch, _ int) int64 { return l.Max }))
	for range world {
		tr.arena = append(tr.arena, g.alloc(2*(tr.most+256)))
	}
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
	return tr.gpu.function(tr.source, tr.define, s.row.Function)
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

// run captures the steps, each rank's one after the other, and replays them. The ranks run free of each other within
// a replay; with wait each pauses at random before each step.
func (tr *trial) run(steps []step, replays int, wait time.Duration) {
	tr.t.Helper()
	check := func(name string) cuda.Function { return tr.gpu.function("testdata/check.cu", "", name) }
	fill, verify, next, delay := check("fill"), check("verify"), check("next"), check("delay")
	for _, s := range steps {
		if !tr.fitsAtOnce(tr.function(s), s.row.Grid, s.row.Block) {
			tr.t.Fatalf("%s: %d ranks' blocks do not fit on the GPU at once", s, len(tr.ranks))
		}
	}
	x := tr.capture(func(r *rank) {
		for i, s := range steps {
			size := int64(s.dt.Size())
			in := tr.arena[r.rank] + cuda.Pointer((s.offset[0]+int64(r.rank))*size) // ranks' alignments differ
			out := tr.arena[r.rank] + cuda.Pointer(tr.most+256) + cuda.Pointer(s.offset[1]*size)
			if s.inPlace {
				out = in
			}
			k := task{
				in: in, out: out, count: uint64(s.count), replay: tr.replay, errors: tr.errors, rank: uint32(r.rank),
				world: uint32(len(tr.ranks)), step: uint32(i), kind: map[collective.DataType]uint32{collective.Float16: 1, collective.BFloat16: 2}[s.dt],
			}
			blocks := int(min(ceil(s.count, 256)+1, 64))
			launch(tr.gpu, fill, blocks, 256, r.stream, k)
			if wait > 0 {
				d := k
				d.count = uint64(wait)
				launch(tr.gpu, delay, 1, 1, r.stream, d)
			}
			launch(tr.gpu, tr.function(s), s.row.Grid, s.row.Block, r.stream, tr.call(r, s.dt, s.count, in, out))
			launch(tr.gpu, verify, blocks, 256, r.stream, k)
		}
	}, func(s cuda.Stream) { launch(tr.gpu, next, 1, 1, s, task{replay: tr.replay}) })
	const at = 500
	for i := range replays {
		tr.check(tr.Launch(x, tr.main))
		if i%at == at-1 || i == replays-1 {
			tr.finish(time.Minute)
		}
	}
	tr.verdict(steps)
}

// finish waits for the main stream; at the deadline it tells the ranks to leave and fails.
func (tr *trial) finish(limit time.Duration) {
	tr.t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(50 * time.Microsecond) {
		done := must(tr.StreamDone(tr.main))(tr.t)
		if done {
			return
		}
		if time.Now().After(end) {
			for _, r := range tr.ranks {
				tr.t.Errorf("rank %d waits: %#x, fault %d", r.rank, r.waiting(), r.fault())
				r.abort()
			}
			tr.check(tr.SynchronizeStream(tr.main))
			tr.t.FailNow()
		}
	}
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

func backends() []backend.Backend {
	own := shared{&settings{}}
	return []backend.Backend{oneShot{own}, twoShot{own}, hostStaged{own}}
}

// TestGPUEdges: every type, many world sizes, sizes at all edges of the launch table, odd counts and misaligned buffers, in
// place and not, ranks that pause, blocks that dawdle between push and poll, a sequence that wraps.
func TestGPUEdges(t *testing.T) {
	for _, b := range backends() {
		for _, world := range []int{1, 2, 3, 4, 5, 8, 13, 16} {
			t.Run(fmt.Sprintf("%s/%d", b.Info().Name, world), func(t *testing.T) {
				g := openGPU(t)
				tr := newTrial(g, b, lo.Ternary(world%4 == 0, "PUSH_DAWDLE", ""), world)
				tr.preset(0xffffffff - 5)
				for _, dt := range types() {
					tr.run(tr.edges(dt), 20, 20*time.Microsecond)
				}
				if now := tr.sequence(tr.ranks[0]); now > 1<<20 {
					t.Errorf("sequence %#x: it has not wrapped", now)
				}
			})
		}
	}
}
