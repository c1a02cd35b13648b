package pluginv1_test

import (
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
)

// fuzzAdapters reads any bytes as a message, and what can be read is sent on, over the wire, and read again: it must be the
// same. look is given what was read.
func fuzzAdapters[T any, M proto.Message](f *testing.F, empty func() M, seeds []T, from func(T) M, to func(M) (T, error), look func(*testing.T, T)) {
	f.Helper()
	for _, v := range seeds {
		data, err := proto.Marshal(from(v))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m := empty()
		if proto.Unmarshal(data, m) != nil {
			return
		}
		v, err := to(m)
		if err != nil {
			if err.Error() == "" {
				t.Error("refused without words")
			}
			return
		}
		wire, err := proto.Marshal(from(v))
		if err != nil {
			t.Fatalf("what was read cannot be sent on: %v", err)
		}
		m = empty()
		if err := proto.Unmarshal(wire, m); err != nil {
			t.Fatal(err)
		}
		again, err := to(m)
		if err != nil {
			t.Fatalf("what was read cannot be sent on: %v", err)
		}
		if diff := cmp.Diff(v, again); diff != "" {
			t.Error(diff)
		}
		look(t, v)
	})
}

// FuzzToPlan: all kinds. What Validate accepts can be used as far as it goes without a machine.
func FuzzToPlan(f *testing.F) {
	look := func(t *testing.T, p plan.Plan) {
		for _, world := range []int{0, 1, 2, 8, plan.MaxWorld, math.MaxInt} {
			if p.Validate(world) != nil {
				continue
			}
			switch p := p.(type) {
			case *plan.Schedule:
				if n := p.MemoryBytes(); n < 0 || n > 2*plan.MaxShared {
					t.Errorf("%d bytes of memory", n)
				}
				var refused *schedule.Refused
				if err := schedule.Prove(p); errors.As(err, &refused) && refused.Problem == "" {
					t.Error("refused without words")
				}
			case *plan.Kernel:
				if p.HostStride() < 0 || p.Key() == "" {
					t.Errorf("stride %d, key %q", p.HostStride(), p.Key())
				}
			}
		}
	}
	fuzzAdapters(f, func() *pluginv1.Plan { return &pluginv1.Plan{} }, samplePlans(), pluginv1.FromPlan, pluginv1.ToPlan, look)
}

func FuzzToVerdict(f *testing.F) {
	seeds := []backend.Verdict{backend.Accepted(backend.AllBytes()...), backend.Declined(backend.Because(backend.Arch, "a", "b"))}
	fuzzAdapters(f, func() *pluginv1.Verdict { return &pluginv1.Verdict{} }, seeds, pluginv1.FromVerdict, pluginv1.ToVerdict,
		func(_ *testing.T, v backend.Verdict) { _ = v.String() })
}

func FuzzToGroup(f *testing.F) {
	fuzzAdapters(f, func() *pluginv1.Group { return &pluginv1.Group{} }, []collective.Group{gpuGroup(), collective.HostGroup("g", 3)}, pluginv1.FromGroup, pluginv1.ToGroup,
		func(t *testing.T, g collective.Group) {
			if g.Worst(); g.Hosts() > g.WorldSize() {
				t.Errorf("%d hosts of %d ranks", g.Hosts(), g.WorldSize())
			}
		})
}

func FuzzToInfo(f *testing.F) {
	fuzzAdapters(f, func() *pluginv1.Backend { return &pluginv1.Backend{} }, sampleInfos(), pluginv1.FromInfo, pluginv1.ToInfo,
		func(t *testing.T, info backend.Info) {
			info.Requirements.Describe()
			for _, g := range []collective.Group{gpuGroup(), collective.HostGroup("g", 3)} {
				for _, c := range []collective.Class{{}, {Memory: collective.CUDA, Captured: true}} {
					req := backend.Request{Group: g, Class: c}
					if err := info.Requirements.Check(req).Validate(); err != nil {
						t.Errorf("%+v: %v", req, err)
					}
					info.Requirements.WouldAccept(req)
				}
			}
		})
}

func FuzzToClass(f *testing.F) {
	fuzzAdapters(f, func() *pluginv1.Class { return &pluginv1.Class{} }, []collective.Class{{}, {Memory: collective.CUDA, Captured: true, Registered: true}}, pluginv1.FromClass, pluginv1.ToClass,
		func(t *testing.T, c collective.Class) {
			if i := c.Index(); i < 0 || i >= collective.NumClasses || collective.ClassAt(i) != c {
				t.Errorf("class %+v has the index %d", c, i)
			}
		})
}
