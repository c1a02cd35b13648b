package backendtest

import (
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/internal/exec"
)

// Benchmark measures a schedule backend's plan at message sizes in bytes, by goroutines as ranks, whatever its byte
// windows say: so an author finds where they should end. Numbers are worth something only with a core for every rank.
func Benchmark(b *testing.B, be backend.Backend, dt collective.DataType, worlds []int, sizes []int64) {
	b.Helper()
	s := newSuite(b.Context(), be)
	class := collective.Class{Memory: collective.Host, DataType: dt, Op: collective.Sum, Registered: be.Info().Requirements.Registered}
	for _, world := range worlds {
		req := backend.Request{Group: s.group(world), Class: class}
		p, err := be.Plan(b.Context(), req, backend.AllBytes())
		if err != nil {
			b.Fatalf("%s: Plan: %v", describe(req), err)
		}
		schedule, ok := p.(*plan.Schedule)
		if !ok {
			b.Fatalf("%s: the plan is a %s, only schedules are run", describe(req), p.Kind())
		}
		for _, n := range sizes {
			b.Run(fmt.Sprintf("%s/%d_ranks/%s/%d_bytes", s.info.Name, world, dt, n), func(b *testing.B) { measure(b, schedule, class, n) })
		}
	}
}

func measure(b *testing.B, p *plan.Schedule, class collective.Class, n int64) {
	g, err := newTeam(p, time.Minute)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(n)
	b.ReportAllocs()
	err = g.each(func(rank int, run func(exec.Call) error) error {
		src, dst := g.buffers(rank, n)
		copy(src, randomFloats(class.DataType, n, uint64(rank)))
		c := exec.Call{Class: class, Dst: unsafe.Pointer(&dst[0]), Src: unsafe.Pointer(&src[0]), Bytes: n}
		for range b.N {
			if err := run(c); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}
