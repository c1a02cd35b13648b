package profiles_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/engine/profiles"
)

// node is n GPUs with the same link between every two.
func node(n int, vendor, capability string, link topology.Link, multicast topology.Answer, p2p topology.P2P) topology.Graph {
	g := topology.Uniform(n, link, func(i int) topology.Device {
		return topology.Device{Index: i, Vendor: vendor, Capability: capability}
	})
	g.Multicast, g.P2P = multicast, p2p
	return g
}

var (
	nv18 = topology.Link{Class: topology.NVLink, Count: 18}
	nv4  = topology.Link{Class: topology.NVLink, Count: 4}
	sys  = topology.Link{Class: topology.SYS}
	xgmi = topology.Link{Class: topology.XGMI}

	h200     = node(8, "nvidia", "9.0", nv18, topology.Yes, topology.P2PReported)
	b200     = node(8, "nvidia", "10.0", nv18, topology.Yes, topology.P2PReported)
	nvswitch = node(8, "nvidia", "", nv18, topology.NotKnown, topology.P2PReported)
	rtx8     = node(8, "nvidia", "12.0", sys, topology.No, topology.P2PReported)
	rtx2     = node(2, "nvidia", "12.0", sys, topology.No, topology.P2PReported)
	a100     = node(4, "nvidia", "8.0", nv4, topology.No, topology.P2PReported)
	mi300x   = node(8, "amd", "gfx942", xgmi, topology.No, topology.P2PReported)
)

// The messages: 1, 8 and 64 tokens of hidden size 7168 in bfloat16, and a prefill.
const (
	s1  = 14336
	s8  = 114688
	s64 = 917504
	big = 32 << 20
)

// decide asks a profile about a captured bfloat16 sum of every device of a node.
func decide(t *testing.T, profile, model string, g topology.Graph) dispatch.Decision {
	t.Helper()
	p, err := profiles.Load(profile)
	if err != nil {
		t.Fatal(err)
	}
	m, err := profiles.FindModel(model)
	if err != nil {
		t.Fatal(err)
	}
	req := backend.Request{
		Group:        collective.GPUGroup("g", g, 1),
		Class:        collective.Class{Memory: collective.CUDA, DataType: collective.BFloat16, Captured: true},
		Hypothetical: true,
	}
	cs, err := p.Candidates(req, profiles.Setup{Model: &m, Hidden: 7168})
	if err != nil {
		t.Fatal(err)
	}
	return dispatch.Resolve(t.Context(), cs, req.Group, req.Class, dispatch.Options{AskAll: true, Hypothetical: true})
}

// TestGolden is node, engine, size -> backend, derived by hand from the gates of the commits that the profiles name.
func TestGolden(t *testing.T) {
	const listed, other = "kimi-k2.5", "llama-3.1-70b" // on SGLang's list of FlashInfer models, and not
	for _, c := range []struct {
		node    string
		graph   topology.Graph
		profile string
		model   string
		want    [4]string // S1, S8, S64, 32 MiB
	}{
		{"8xH200", h200, "sglang", other, [4]string{"custom-v2-push", "custom-v2-push", "custom-v2-multicast", "pynccl"}},
		{"8xH200", h200, "sglang", listed, [4]string{"flashinfer-trtllm", "flashinfer-trtllm", "flashinfer-trtllm", "pynccl"}},
		{"8xH200", h200, "vllm", listed, [4]string{"flashinfer", "flashinfer", "torch-symm-mem", "torch-symm-mem"}},
		{"8xH200", h200, "sglang", "glm-5", [4]string{"flashinfer-trtllm", "flashinfer-trtllm", "flashinfer-trtllm", "pynccl"}},
		// Whatever its GPUs are, v2 takes these messages; which schedule is told only as far as it does not depend on them.
		{"8 GPUs on NVSwitch", nvswitch, "sglang", other, [4]string{"custom-v2-push", "custom-v2-push", "custom-v2-two-shot", "pynccl"}},
		{"8xB200", b200, "sglang", other, [4]string{"custom-v2-push", "custom-v2-push", "custom-v2-two-shot", "pynccl"}},
		{"8xB200", b200, "sglang", listed, [4]string{"flashinfer-mnnvl", "flashinfer-mnnvl", "flashinfer-mnnvl", "pynccl"}},
		{"8xB200", b200, "vllm", listed, [4]string{"flashinfer", "flashinfer", "flashinfer", "torch-symm-mem"}},
		{"8xRTX PRO 6000", rtx8, "sglang", other, [4]string{"pynccl", "pynccl", "pynccl", "pynccl"}},
		{"8xRTX PRO 6000", rtx8, "sglang", listed, [4]string{"pynccl", "pynccl", "pynccl", "pynccl"}},
		{"8xRTX PRO 6000", rtx8, "vllm", listed, [4]string{"pynccl", "pynccl", "pynccl", "pynccl"}},
		{"2xRTX PRO 6000", rtx2, "sglang", other, [4]string{"custom-v1", "custom-v1", "custom-v1", "pynccl"}},
		{"2xRTX PRO 6000", rtx2, "sglang", listed, [4]string{"custom-v1", "custom-v1", "custom-v1", "pynccl"}},
		{"2xRTX PRO 6000", rtx2, "vllm", listed, [4]string{"custom", "custom", "custom", "pynccl"}},
		{"4xA100", a100, "sglang", other, [4]string{"custom-v2-push", "custom-v2-push", "custom-v2-push", "pynccl"}},
		{"4xA100", a100, "sglang", listed, [4]string{"custom-v2-push", "custom-v2-push", "custom-v2-push", "pynccl"}},
		{"4xA100", a100, "vllm", listed, [4]string{"custom", "custom", "custom", "pynccl"}},
		{"8xMI300X", mi300x, "sglang", other, [4]string{"aiter-custom", "aiter-custom", "aiter-custom", "aiter-custom"}},
		{"8xMI300X", mi300x, "vllm", listed, [4]string{"custom-rocm", "custom-rocm", "custom-rocm", "pynccl"}},
	} {
		t.Run(fmt.Sprintf("%s/%s/%s", c.node, c.profile, c.model), func(t *testing.T) {
			d := decide(t, c.profile, c.model, c.graph)
			for i, bytes := range []int64{s1, s8, s64, big} {
				if got := d.Answers[d.Table.Lookup(bytes)].Backend; got != c.want[i] {
					t.Errorf("%d bytes: %s, want %s", bytes, got, c.want[i])
				}
			}
		})
	}
}

// TestGoldenEdges are the sizes at which the vectors say that the choice changes.
func TestGoldenEdges(t *testing.T) {
	for _, c := range []struct {
		profile, model string
		graph          topology.Graph
		last           int64 // the largest size of the backend, in steps of 16 bytes
		backend, next  string
	}{
		{"vllm", "kimi-k2.5", h200, 512 << 10, "flashinfer", "torch-symm-mem"}, // 36 tokens at hidden 7168
		{"vllm", "kimi-k2.5", b200, 1 << 20, "flashinfer", "torch-symm-mem"},   // 73 tokens
		{"vllm", "kimi-k2.5", rtx2, 8<<20 - 16, "custom", "pynccl"},            // below 8 MiB
		{"sglang", "kimi-k2.5", rtx2, 8 << 20, "custom-v1", "pynccl"},          // up to 8 MiB
		{"sglang", "kimi-k2.5", h200, 28 << 20, "flashinfer-trtllm", "pynccl"}, // 2048 tokens of workspace
		{"sglang", "llama-3.1-70b", h200, 128 << 10, "custom-v2-push", "custom-v2-two-shot"},
		{"sglang", "llama-3.1-70b", h200, 16 << 20, "custom-v2-multicast", "pynccl"}, // clipped to 16 MiB
		{"sglang", "kimi-k2.5", a100, 1 << 20, "custom-v2-push", "custom-v2-two-shot"},
		{"sglang", "kimi-k2.5", a100, 16 << 20, "custom-v2-two-shot", "pynccl"},
		{"vllm", "kimi-k2.5", a100, 8<<20 - 16, "custom", "pynccl"},
		{"vllm", "kimi-k2.5", mi300x, 8<<20 - 16, "custom-rocm", "pynccl"},
	} {
		d := decide(t, c.profile, c.model, c.graph)
		at := func(n int64) string { return d.Answers[d.Table.Lookup(n)].Backend }
		if at(c.last) != c.backend || at(c.last+16) != c.next {
			t.Errorf("%s %s: %d bytes %s, 16 more %s; want %s, %s", c.profile, c.model, c.last, at(c.last), at(c.last+16), c.backend, c.next)
		}
	}
}

// TestGoldenReasons are the reasons that the vectors name.
func TestGoldenReasons(t *testing.T) {
	for _, c := range []struct {
		profile string
		graph   topology.Graph
		backend string
		want    string // how the verdict begins
	}{
		{"sglang", rtx8, "custom-v2-push", "decline; LINK_NOT_FULL: SYS, needs NVLink on every pair"},
		{"sglang", rtx8, "custom-v1", "decline; LINK_NOT_FULL: SYS, needs NVLink on every pair of 3 or more ranks"},
		{"sglang", rtx8, "flashinfer-trtllm", "decline; ARCH: 12.0, needs 9.0"},
		{"sglang", rtx2, "custom-v2-push", "decline; LINK_NOT_FULL: SYS, needs NVLink on every pair"},
		{"sglang", h200, "torch-symm-mem", "decline; DISABLED_BY_USER: off by default, needs --enable-torch-symm-mem"},
		{"vllm", rtx8, "flashinfer", "decline; ARCH: 12.0, needs 9.0, 10.0, 10.3, 10.7"},
		{"vllm", rtx8, "torch-symm-mem", "decline; NO_MULTICAST: no, needs NVLink multicast; ARCH: 12.0"},
		{"vllm", rtx8, "custom", "decline; LINK_NOT_FULL: SYS, needs NVLink on every pair of 3 or more ranks"},
		{"vllm", mi300x, "quick-reduce", "decline; DISABLED_BY_USER: off by default, needs VLLM_ROCM_QUICK_REDUCE_QUANTIZATION=FP"},
		{"vllm", mi300x, "custom", "decline; LINK_NOT_FULL: XGMI"},
	} {
		d := decide(t, c.profile, "kimi-k2.5", c.graph)
		for _, a := range d.Answers {
			if a.Backend == c.backend && !strings.HasPrefix(a.Verdict.String(), c.want) {
				t.Errorf("%s %s: %s\nwant %s", c.profile, c.backend, a.Verdict, c.want)
			}
		}
	}
}
