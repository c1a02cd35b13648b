package conformance

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"unsafe"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/internal/exec"
)

// resultsAreExact runs every type and op, in place and out of place; with many ranks every third of their pairs.
//
// Most runs shorten a schedule's tile, so that messages of a few KiB have several tiles: a schedule is right for every
// length of tile or for none. Two classes run with the tile as it is.
func (s *suite) resultsAreExact() error {
	if s.info.Kind == plan.KernelKind || s.info.Kind == plan.LibraryKind {
		return s.resultsOnDevice()
	}
	tried := false
	for _, world := range s.worlds() {
		for i, req := range s.requestsOf(world) {
			if world > 5 && i%s.stride() != 0 {
				continue // many ranks on few cores take a while
			}
			s.doing("%s", describe(req))
			p, ranges, err := s.plan(req)
			if err != nil {
				return err
			}
			if p == nil {
				continue
			}
			tried = true
			whole := req.Class.DataType == collective.Float32 && req.Class.Op == collective.Sum ||
				req.Class.DataType == collective.BFloat16 && req.Class.Op == collective.Avg
			err = s.exact(short(p), req, ranges)
			if err == nil && whole && world <= 5 && p.Kind() == plan.ScheduleKind {
				err = s.exact(p, req, ranges)
			}
			if err != nil {
				return err
			}
		}
	}
	if !tried {
		return s.acceptedNothing()
	}
	return nil
}

// stride is which pairs of type and op are tried with many ranks: every third, and for a worker, whose ranks sleep and are woken
// for each tile, every ninth.
func (s *suite) stride() int {
	if s.info.Kind == plan.WorkerKind {
		return 9
	}
	return 3
}

// short is a schedule with tiles of a few cache lines for each chunk; another plan is itself.
func short(p plan.Plan) plan.Plan {
	if p, ok := p.(*plan.Schedule); ok {
		return shortTiles(p)
	}
	return p
}

// teamOf is ranks that run a plan.
func (s *suite) teamOf(p plan.Plan, req backend.Request) (*team, error) {
	if err := s.plugin.found.about(s, theRun); err != nil {
		return nil, err
	}
	switch p := p.(type) {
	case *plan.Schedule:
		return scheduleTeam(p, s.deadline)
	case *plan.Worker:
		g, err := s.attach(req.Group.ID, req.Group.WorldSize(), p)
		if err != nil {
			return nil, err
		}
		return &g.team, nil
	}
	return nil, fmt.Errorf("a %s is not run by goroutines", p.Kind())
}

// shortTiles is the schedule with tiles of a few cache lines for each chunk.
func shortTiles(p *plan.Schedule) *plan.Schedule {
	short := *p
	short.TileBytes = min(p.TileBytes, max(256, 128*int64(p.Chunks)))
	return &short
}

// sizesOf are the byte counts to try a plan with, and how long its tiles are.
func sizesOf(p plan.Plan, dt collective.DataType, ranges []backend.Range, tiles int64) (sizes []int64, tile int64) {
	limit := int64(1 << 20)
	switch p := p.(type) {
	case *plan.Schedule:
		tile = p.TileBytes
		limit = min(limit, max(tiles, int64(p.Buffers+2))*tile)
		if p.Direct() { // its range may begin beyond the memory that there is to try it with
			limit, ranges = min(limit, plan.TrialBytes), backend.AllBytes()
		}
	case *plan.Worker:
		tile = p.SlotBytes
		limit = min(limit, max(tiles, int64(p.Slots+2))*tile)
	}
	return exec.TestSizes(dt, ranges, []int64{tile}, limit), tile
}

func (s *suite) exact(p plan.Plan, req backend.Request, ranges []backend.Range) (err error) {
	sizes, tile := sizesOf(p, req.Class.DataType, ranges, 0)
	g, err := s.teamOf(p, req)
	if err != nil {
		return fmt.Errorf("%s: %w", describe(req), err)
	}
	defer g.close()
	sizes = alternating(sizes)
	err = g.each(func(rank int, run func(exec.Call) error) error {
		run = unevenly(rank, run)
		if p.Kind() == plan.WorkerKind {
			return exec.SelfTestNumbered(run, rank, req.Group.WorldSize(), req.Class, sizes, inOrder)
		}
		return exec.SelfTestSizes(run, rank, req.Group.WorldSize(), req.Class, sizes, g.memory(rank))
	})
	if err != nil {
		return fmt.Errorf("%s, tiles of %d bytes: %w", describe(req), tile, err)
	}
	return nil
}

// bitsAreTheSame: a backend that promises determinism gives the same bits on every rank and in every run, on numbers
// whose sum depends on the order of addition.
func (s *suite) bitsAreTheSame() error {
	if !s.info.Requirements.Deterministic {
		return notApplicable("the backend does not promise the same bits")
	}
	most := 8
	if s.info.Kind == plan.WorkerKind {
		most = 4 // its order does not depend on how many there are
	}
	for _, world := range lo.Filter(s.worlds(), func(n, _ int) bool { return n <= most }) {
		for _, req := range s.requestsOf(world) {
			if !req.Class.DataType.Float() || req.Class.Op == collective.Min || req.Class.Op == collective.Max {
				continue
			}
			s.doing("%s", describe(req))
			p, ranges, err := s.plan(req)
			if err != nil {
				return err
			}
			if p == nil {
				continue
			}
			if err := s.sameBits(short(p), req, ranges); err != nil {
				return fmt.Errorf("%s: %w", describe(req), err)
			}
		}
	}
	return nil
}

func (s *suite) sameBits(p plan.Plan, req backend.Request, ranges []backend.Range) error {
	sizes, _ := sizesOf(p, req.Class.DataType, ranges, 4)
	if len(sizes) == 0 {
		return nil
	}
	n := sizes[len(sizes)-1]
	g, err := s.teamOf(p, req)
	if err != nil {
		return err
	}
	defer g.close()
	var first []byte
	for number := range uint64(3) {
		outputs := make([][]byte, len(g.ranks))
		err := g.each(func(rank int, run func(exec.Call) error) error {
			src, dst := g.buffers(rank, n)
			copy(src, randomFloats(req.Class.DataType, n, uint64(rank)))
			err := unevenly(rank, run)(exec.Call{
				Class: req.Class, Number: number, Dst: unsafe.Pointer(&dst[0]), Src: unsafe.Pointer(&src[0]), Bytes: n,
			})
			outputs[rank] = bytes.Clone(dst)
			return err
		})
		if err != nil {
			return err
		}
		if first == nil {
			first = outputs[0]
		}
		for rank, out := range outputs {
			if !bytes.Equal(out, first) {
				return fmt.Errorf("promises the same bits, but rank %d got others than rank 0 in the first run", rank)
			}
		}
	}
	if s.info.Requirements.Order != backend.RankOrder {
		return nil
	}
	return inRankOrder(req.Class, first, lo.Times(req.Group.WorldSize(), func(rank int) []byte {
		return randomFloats(req.Class.DataType, n, uint64(rank))
	}))
}

// inRankOrder compares a result with the inputs added, or multiplied, from rank 0 on: types of 16 bits in float32, the others in
// their own, rounded once.
func inRankOrder(c collective.Class, got []byte, inputs [][]byte) error {
	in := func(v float64) float64 { return float64(float32(v)) } // rounds after each step
	if c.DataType == collective.Float64 {
		in = func(v float64) float64 { return v }
	}
	for i := range len(got) / c.DataType.Size() {
		v := exec.At(c.DataType, inputs[0], i)
		for _, x := range inputs[1:] {
			if c.Op == collective.Prod {
				v = in(v * exec.At(c.DataType, x, i))
			} else {
				v = in(v + exec.At(c.DataType, x, i))
			}
		}
		if c.Op == collective.Avg {
			v = in(v / float64(len(inputs)))
		}
		switch c.DataType {
		case collective.Float16:
			v = float64(collective.NewF16(float32(v)).Float32())
		case collective.BFloat16:
			v = float64(collective.NewBF16(float32(v)).Float32())
		}
		if x := exec.At(c.DataType, got, i); x != v {
			return fmt.Errorf("promises the order of the ranks, but element %d is %v, in that order it is %v", i, x, v)
		}
	}
	return nil
}

// randomFloats are numbers of either sign between 2^-4 and 2^4.
func randomFloats(dt collective.DataType, bytes int64, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	words := make([]uint64, bytes/8+1)
	buf := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), bytes)
	for i := range int(bytes) / dt.Size() {
		v := (rng.Float64() - 0.5) * float64(int(1)<<rng.IntN(6))
		at := unsafe.Pointer(&buf[i*dt.Size()])
		switch dt {
		case collective.Float64:
			*(*float64)(at) = v
		case collective.Float16:
			*(*collective.F16)(at) = collective.NewF16(float32(v))
		case collective.BFloat16:
			*(*collective.BF16)(at) = collective.NewBF16(float32(v))
		default:
			*(*float32)(at) = float32(v)
		}
	}
	return buf
}
