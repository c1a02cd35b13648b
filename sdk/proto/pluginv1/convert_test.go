package pluginv1_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
)

func roundTrip[T, M any](t *testing.T, values []T, from func(T) M, to func(M) (T, error)) {
	t.Helper()
	for _, v := range values {
		m := from(v)
		if pm, ok := any(m).(proto.Message); ok { // over the wire, where empty and missing are the same
			data, err := proto.Marshal(pm)
			if err != nil {
				t.Fatal(err)
			}
			proto.Reset(pm)
			if err := proto.Unmarshal(data, pm); err != nil {
				t.Fatal(err)
			}
		}
		got, err := to(m)
		if err != nil {
			t.Fatalf("%+v: %v", v, err)
		}
		if diff := cmp.Diff(v, got); diff != "" {
			t.Errorf("round trip (-want +got):\n%s", diff)
		}
	}
}

func TestClassRoundTrip(t *testing.T) {
	var all []collective.Class
	for i := range collective.NumClasses {
		if c := collective.ClassAt(i); c.Validate() == nil {
			all = append(all, c)
		}
	}
	roundTrip(t, all, pluginv1.FromClass, pluginv1.ToClass)
}

func gpuGroup() collective.Group {
	g := collective.HostGroup("pair", 2)
	g.Ranks[0] = collective.Rank{
		PID: 7, Host: "a", NUMA: "1", Driver: "570.86.10", Libraries: []collective.Library{{Name: "nccl", Path: "/l", Version: "2.28.9"}},
		Device: &topology.Device{Index: 3, UUID: "GPU-1", PCIBusID: "0000:17:00.0", Name: "H100", Capability: "9.0", NUMA: "1", Vendor: "nvidia", CPUAffinity: "0-7"},
	}
	g.Links[0][1] = topology.Link{Class: topology.NVLink, Count: 18}
	g.Links[1][0] = topology.Link{}
	g.P2P, g.Multicast, g.Placement = topology.P2PVerified, topology.No, collective.InPlace
	g.Cores, g.Platform, g.Alignment, g.InFlight, g.Deterministic = 16, "linux/amd64", 16, 2, true
	return g
}

func TestGroupAndRankRoundTrip(t *testing.T) {
	failed := gpuGroup()
	failed.P2P, failed.P2PDetail = topology.P2PFailed, "rank 0 into rank 1: nothing came"
	groups := []collective.Group{collective.HostGroup("eight", 8), gpuGroup(), failed}
	roundTrip(t, groups, pluginv1.FromGroup, pluginv1.ToGroup)
	roundTrip(t, groups[1].Ranks, pluginv1.FromRank, pluginv1.ToRank)
}

func TestVerdictRoundTrip(t *testing.T) {
	reason := backend.Reason{Code: backend.Arch, Observed: "8.6", Required: "9.0", Rank: 0, Text: "x"}
	roundTrip(t, []backend.Verdict{
		backend.Accepted(backend.AllBytes()...),
		backend.Accepted(backend.Range{Min: 4, Max: 1 << 40, Multiple: 16}, backend.Range{Min: 1, Max: 1, Unmeasured: true}),
		backend.Declined(reason, backend.Because(backend.TooSmall, "", "")),
		{Kind: backend.Unknown, Reasons: []backend.Reason{backend.Because(backend.ProbeUnavailable, "a", "b")}},
		{Kind: backend.NotAsked},
	}, pluginv1.FromVerdict, pluginv1.ToVerdict)
	roundTrip(t, []backend.Reason{reason}, pluginv1.FromReason, pluginv1.ToReason)
	roundTrip(t, [][]backend.Range{nil, backend.AllBytes()}, pluginv1.FromRanges, pluginv1.ToRanges)
}

func sampleInfos() []backend.Info {
	half := collective.Float16
	return []backend.Info{
		{Name: "plain", Kind: plan.WorkerKind},
		{Name: "trusting", Kind: plan.KernelKind, Requirements: backend.Requirements{Scope: backend.OneFabric, P2P: backend.P2PAssumed}},
		{
			Name: "two-shot", Description: "for people", Kind: plan.KernelKind, Priority: -5,
			Requirements: backend.Requirements{
				WorldSizes: backend.Exactly(2, 8), Memories: collective.Memories(), DataTypes: collective.DataTypes(), Ops: collective.Ops(),
				Scope: backend.OneClique, NUMANodes: 2, Links: []topology.Class{topology.NVLink, topology.PIX}, LinksFrom: 3, P2P: topology.P2PReported, Multicast: true,
				Vendors: []string{"nvidia"}, Capabilities: []string{"9.0", "8.0+"}, Platforms: []string{"linux/amd64"}, Driver: "550",
				Libraries: []collective.Library{{Name: "nccl", Version: "2.20"}},
				Windows: []backend.Window{{
					Capability: "9.0", Link: topology.SYS, WorldSizes: backend.Span{Min: 5, Max: 8}, Mode: backend.Captured, DataType: &half,
					Range: backend.Range{Min: 1, Max: 9, Multiple: 3}, Unmeasured: true,
				}},
				Multiple: 16, Alignment: 128, Placement: collective.OutOfPlace, Modes: []backend.Mode{backend.Eager},
				InFlight: 1, Deterministic: true, Order: backend.RankOrder,
			},
		},
	}
}

func TestInfoRoundTrip(t *testing.T) {
	roundTrip(t, sampleInfos(), pluginv1.FromInfo, pluginv1.ToInfo)
}

func samplePlans() []plan.Plan {
	return []plan.Plan{
		&plan.Schedule{
			TileBytes: 4096, Buffers: 2, Slots: 1, Signals: 1, Chunks: 2,
			Programs: [][]plan.Step{{
				{Kind: plan.Copy, Dst: plan.Place{Where: plan.Slot, Rank: 1, Slot: 0}, Srcs: []plan.Place{{Where: plan.In}}, Chunk: plan.AllChunks},
				{Kind: plan.Signal, Signal: 0},
				{Kind: plan.Wait, Rank: 1, Signal: 0, Lag: 2},
				{Kind: plan.Reduce, Dst: plan.Place{Where: plan.Out}, Srcs: []plan.Place{{Where: plan.In}, {Where: plan.Slot, Rank: 1}}, Chunk: 1, Final: true},
			}, nil},
		},
		&plan.Kernel{
			Image: []byte{0, 255}, BufferBytes: 1 << 20, PollsAbort: true, MinDriver: "12.0", Buffer: plan.HostBuffer,
			Launches: []plan.Launch{{
				DataType: "float32", Min: 1, Max: 2, Function: "f", Grid: 3, Block: 4, SharedBytes: 5, Arguments: []plan.Argument{plan.ArgIn, plan.ArgNull},
			}},
		},
		&plan.Library{Path: "/libnccl.so.2", Version: "2.28.9", Variant: "nccl"},
		&plan.Worker{SlotBytes: 4096, Slots: 2},
	}
}

func TestPlanRoundTrip(t *testing.T) {
	roundTrip(t, samplePlans(), pluginv1.FromPlan, pluginv1.ToPlan)
}

func TestUnfitTextTravels(t *testing.T) {
	m := pluginv1.FromReason(backend.Reason{Code: backend.Other, Rank: backend.AnyRank, Text: "path \xff"})
	if _, err := proto.Marshal(m); err != nil {
		t.Errorf("a reason that is not UTF-8 cannot be sent: %v", err)
	}
	r := pluginv1.FromRank(collective.Rank{PID: math.MaxInt})
	if r.GetPid() != math.MaxInt32 {
		t.Errorf("pid wrapped to %d", r.GetPid())
	}
}

func TestBadMessages(t *testing.T) {
	fail := func(_ any, err error) error { return err }
	step := func(s *pluginv1.Step) *pluginv1.Plan {
		return &pluginv1.Plan{Kind: &pluginv1.Plan_Schedule{Schedule: &pluginv1.Schedule{
			Programs: []*pluginv1.Program{{Steps: []*pluginv1.Step{s}}},
		}}}
	}
	group := func(change func(*pluginv1.Group)) error {
		m := pluginv1.FromGroup(gpuGroup())
		change(m)
		return fail(pluginv1.ToGroup(m))
	}
	info := func(change func(*pluginv1.Backend)) error {
		m := &pluginv1.Backend{Name: "a", Kind: "kernel", Requirements: &pluginv1.Requirements{}}
		change(m)
		return fail(pluginv1.ToInfo(m))
	}
	negative := int32(-4)
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"no class":         {fail(pluginv1.ToClass(nil)), "missing request class"},
		"empty class":      {fail(pluginv1.ToClass(&pluginv1.Class{})), "memory kind"},
		"unknown type":     {fail(pluginv1.ToClass(&pluginv1.Class{Memory: "host", DataType: "complex", Op: "sum"})), `"complex"`},
		"no group":         {fail(pluginv1.ToGroup(nil)), "missing group"},
		"no ranks":         {group(func(g *pluginv1.Group) { g.Ranks = nil }), "no ranks"},
		"nil rank":         {group(func(g *pluginv1.Group) { g.Ranks[1] = nil }), "rank 1"},
		"nil row":          {group(func(g *pluginv1.Group) { g.Links[1] = nil }), "row 1"},
		"unknown link":     {group(func(g *pluginv1.Group) { g.Links[1].Links[0] = "WARP" }), `row 1: link 0: unknown link class "WARP"`},
		"unknown p2p":      {group(func(g *pluginv1.Group) { g.P2P = "perhaps" }), "perhaps"},
		"negative cores":   {group(func(g *pluginv1.Group) { g.Cores = -1 }), "negative cores -1"},
		"nil library":      {group(func(g *pluginv1.Group) { g.Ranks[0].Libraries[0] = nil }), "library 0"},
		"no verdict":       {fail(pluginv1.ToVerdict(nil)), "missing verdict"},
		"empty verdict":    {fail(pluginv1.ToVerdict(&pluginv1.Verdict{})), "unknown verdict"},
		"accepts nothing":  {fail(pluginv1.ToVerdict(&pluginv1.Verdict{Kind: "accept"})), "without a byte range"},
		"nil range":        {fail(pluginv1.ToVerdict(&pluginv1.Verdict{Kind: "accept", Ranges: []*pluginv1.Range{nil}})), "range 0"},
		"nil reason":       {fail(pluginv1.ToVerdict(&pluginv1.Verdict{Kind: "decline", Reasons: []*pluginv1.Reason{nil}})), "reason 0: missing"},
		"unknown code":     {fail(pluginv1.ToReason(&pluginv1.Reason{Code: "MOOD"})), "MOOD"},
		"negative rank":    {fail(pluginv1.ToReason(&pluginv1.Reason{Code: "ARCH", Rank: &negative})), "negative rank"},
		"no backend":       {fail(pluginv1.ToInfo(nil)), "missing backend"},
		"upper-case name":  {info(func(b *pluginv1.Backend) { b.Name = "Flat" }), `name "Flat"`},
		"unknown kind":     {info(func(b *pluginv1.Backend) { b.Kind = "magic" }), "magic"},
		"impossible span":  {info(func(b *pluginv1.Backend) { b.Requirements.WorldSizes = []*pluginv1.Span{nil} }), "impossible span"},
		"counted link":     {info(func(b *pluginv1.Backend) { b.Requirements.Links = []string{"NV18"} }), "cannot be required"},
		"window, no range": {info(func(b *pluginv1.Backend) { b.Requirements.Windows = []*pluginv1.Window{{}} }), "impossible byte range"},
		"unknown mode":     {info(func(b *pluginv1.Backend) { b.Requirements.Modes = []string{"lazy"} }), "lazy"},
		"window of no type": {info(func(b *pluginv1.Backend) {
			b.Requirements.Windows = []*pluginv1.Window{{Range: &pluginv1.Range{Min: 1, Max: 1}, DataType: "complex"}}
		}), `"complex"`},
		"negative nodes":     {info(func(b *pluginv1.Backend) { b.Requirements.NumaNodes = -1 }), "negative numa_nodes"},
		"negative from":      {info(func(b *pluginv1.Backend) { b.Requirements.LinksFrom = -1 }), "negative links_from"},
		"negative alignment": {info(func(b *pluginv1.Backend) { b.Requirements.Alignment = -1 }), "negative alignment"},
		"no plan":            {fail(pluginv1.ToPlan(nil)), "missing plan"},
		"nil plan":           {fail(pluginv1.ToPlan(pluginv1.FromPlan((*plan.Kernel)(nil)))), "empty plan"},
		"nil step":           {fail(pluginv1.ToPlan(step(nil))), "program 0: step 0: missing step"},
		"wrapping step":      {fail(pluginv1.ToPlan(step(&pluginv1.Step{Kind: 256}))), "unknown instruction 256"},
		"wrapping place":     {fail(pluginv1.ToPlan(step(&pluginv1.Step{Dst: &pluginv1.Place{Where: -255}}))), "unknown place"},
		"nil launch":         {fail(pluginv1.ToPlan(&pluginv1.Plan{Kind: &pluginv1.Plan_Kernel{Kernel: &pluginv1.Kernel{Launches: []*pluginv1.Launch{nil}}}})), "launch 0"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.err == nil || !strings.Contains(c.err.Error(), c.want) || strings.Contains(c.err.Error(), "\n") {
				t.Errorf("got error %q, want one line with %q", c.err, c.want)
			}
		})
	}
}
