package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/sdk/backendtest"
	"github.com/weir-project/weir/sdk/kernel/ptx"
	"github.com/weir-project/weir/tests/require"
)

func TestOneShot(t *testing.T) { backendtest.Run(t, backends()[0]) }

func TestTwoShot(t *testing.T) { backendtest.Run(t, backends()[1]) }

func TestHostStaged(t *testing.T) { backendtest.Run(t, backends()[2]) }

// TestPlans: of every world size, the launch table serves every byte count of the windows once, with functions that the image
// has, and the buffer has room for the largest.
func TestPlans(t *testing.T) {
	for _, b := range backends() {
		for world := 2; world <= maxWorld; world++ {
			k := kernelOf(t, b, world, 1+world%3*8)
			if err := k.Validate(world); err != nil {
				t.Fatalf("%s, %d ranks: %v", b.Info().Name, world, err)
			}
			for _, dt := range types() {
				if err := covers(k, dt, b.Info().Requirements.Windows); err != nil {
					t.Errorf("%s, %d ranks, %s: %v", b.Info().Name, world, dt, err)
				}
			}
			for _, l := range k.Launches {
				if !strings.Contains(string(k.Image), ".entry "+l.Function+"(") {
					t.Errorf("%s: the image has no function %s", b.Info().Name, l.Function)
				}
				if need := slots(l, world) * slotBytes * halves; need > k.BufferBytes {
					t.Errorf("%s, %d ranks: %s of %d bytes takes %d bytes of the buffer, it has %d", b.Info().Name, world, l.Function, l.Max, need, k.BufferBytes)
				}
			}
		}
	}
}

// slots is what a launch takes of half a buffer.
func slots(l plan.Launch, world int) int64 {
	units, n := ceil(l.Max, unitBytes), int64(world)
	switch {
	case strings.HasPrefix(l.Function, "oneshot"):
		return n * units
	case strings.HasPrefix(l.Function, "twoshot"):
		return 2 * n * ceil(units, n)
	case strings.HasPrefix(l.Function, "hoststaged_oneshot"):
		return units
	default:
		return (n + 1) * ceil(units, n)
	}
}

// covers: the rows of a type follow each other without a gap up to the largest window.
func covers(k *plan.Kernel, dt collective.DataType, windows []backend.Window) error {
	rows := lo.Filter(k.Launches, func(l plan.Launch, _ int) bool { return l.DataType == dt.String() })
	slices.SortFunc(rows, func(a, b plan.Launch) int { return int(a.Min - b.Min) })
	next := int64(1)
	for _, l := range rows {
		if l.Min != next {
			return fmt.Errorf("a launch begins at %d bytes, want %d", l.Min, next)
		}
		next = l.Max + 1
	}
	if most := lo.Max(lo.Map(windows, func(w backend.Window, _ int) int64 { return w.Range.Max })); next <= most {
		return fmt.Errorf("the launches end at %d bytes, a window at %d", next-1, most)
	}
	return nil
}

// TestPeerAccess: only hoststaged serves GPUs that have not been seen to reach each other.
func TestPeerAccess(t *testing.T) {
	for p2p, want := range map[topology.P2P][]string{
		topology.P2PVerified: {"oneshot", "twoshot", "hoststaged"}, topology.P2PReported: {"hoststaged"}, topology.P2PNone: {"hoststaged"},
	} {
		graph := topology.Graph{Devices: lo.Times(4, func(i int) topology.Device {
			return topology.Device{Index: i, Vendor: "nvidia", Capability: "12.0"}
		}), P2P: p2p}
		g := collective.GPUGroup("g", graph, 1)
		for i := range g.Ranks {
			g.Ranks[i].Driver = "570.86"
		}
		req := backend.Request{Group: g, Class: collective.Class{Memory: collective.CUDA, DataType: collective.BFloat16}}
		got := lo.FilterMap(backends(), func(b backend.Backend, _ int) (string, bool) {
			return b.Info().Name, b.Info().Check(req).Kind == backend.Accept
		})
		if !slices.Equal(got, want) {
			t.Errorf("P2P %s: %v serve, want %v", p2p, got, want)
		}
	}
}

// TestHostStagedEnds: where NCCL gets faster, which depends on whether it may be taken to go over NVLink.
func TestHostStagedEnds(t *testing.T) {
	for _, c := range []struct {
		world      int
		capability string
		link       topology.Class
		p2p        topology.P2P
		most       int64
		guess      bool
	}{
		{2, "9.0", topology.NVLink, topology.P2PNone, 512 << 10, false},
		{2, "9.0", topology.NVLink, topology.P2PReported, 32 << 10, false},
		{4, "9.0", topology.NVLink, topology.P2PNone, 1 << 20, false},
		{4, "9.0", topology.NVLink, topology.P2PReported, 128 << 10, false},
		{8, "9.0", topology.NVLink, topology.P2PReported, 32 << 10, true},
		{8, "9.0", topology.NVLink, topology.P2PNone, 1 << 20, true},
		{8, "12.0", topology.PHB, topology.P2PReported, 1 << 20, true},
		{8, "12.0", topology.PHB, topology.P2PNone, 1 << 20, true},
	} {
		graph := topology.Graph{P2P: c.p2p, Links: make([][]topology.Link, c.world)}
		for i := range c.world {
			graph.Devices = append(graph.Devices, topology.Device{Index: i, Vendor: "nvidia", Capability: c.capability})
			graph.Links[i] = lo.Times(c.world, func(k int) topology.Link { return lo.Ternary(k == i, topology.Link{}, topology.Link{Class: c.link}) })
		}
		g := collective.GPUGroup("g", graph, 1)
		for i := range g.Ranks {
			g.Ranks[i].Driver = "570.86"
		}
		v, err := hostStaged{}.Accept(t.Context(), backend.Request{Group: g, Class: collective.Class{Memory: collective.CUDA, DataType: collective.BFloat16}})
		most := lo.Max(lo.Map(v.Ranges, func(r backend.Range, _ int) int64 { return r.Max }))
		if err != nil || most != c.most || !lo.EveryBy(v.Ranges, func(r backend.Range) bool { return r.Unmeasured == c.guess }) {
			t.Errorf("%+v: %s, %v", c, v, err)
		}
	}
}

// TestCallIsTheHeaders: the argument block that the GPU tests build has the size of weir_call.
func TestCallIsTheHeaders(t *testing.T) {
	if got := unsafe.Sizeof(call{}); got != 200 {
		t.Errorf("%d bytes", got)
	}
}

// TestPTXBelongsToSource: nobody changed a kernel, the header or the compiler's flags without building again.
func TestPTXBelongsToSource(t *testing.T) {
	for _, b := range backends() {
		for _, world := range []int{0, 2, 4, 8} {
			s := sourceOf(b, world, "")
			text := must(imageOf(b.Info().Name, world))(t)
			if err := ptx.Check(text, os.DirFS("kernels"), filepath.Base(s.file), fmt.Sprintf("PUSH_WORLD=%d", world)); err != nil {
				t.Errorf("%d ranks: %v", world, err)
			}
			if strings.Contains(string(text), ".local") {
				t.Errorf("%s for %d ranks keeps something in local memory, which is slow", s.file, world)
			}
		}
	}
	text := must(imageOf("oneshot", 8))(t)
	if ptx.Check(text, os.DirFS("kernels"), "oneshot.cu", "PUSH_WORLD=4") == nil || ptx.Check(text, os.DirFS("kernels"), "twoshot.cu", "PUSH_WORLD=8") == nil {
		t.Error("a text passes for that of another source")
	}
}

// TestPTXIsReproducible: the compiler that made the texts makes them again, byte for byte.
func TestPTXIsReproducible(t *testing.T) {
	require.Tool(t, ptx.Compiler)
	version := must(ptx.Version(context.Background()))(t)
	for _, name := range []string{"oneshot", "twoshot", "hoststaged"} {
		t.Run(name, func(t *testing.T) {
			text := string(must(imageOf(name, 4))(t))
			if !strings.HasPrefix(text, "// "+version+"\n") {
				require.Missing(t, ptx.Compiler, "the text is of another version than "+version)
			}
			if again := must(ptx.Build(t.Context(), filepath.Join("kernels", name+".cu"), "PUSH_WORLD=4"))(t); string(again) != text {
				t.Error("built again it differs: run ./task kernels")
			}
		})
	}
}
