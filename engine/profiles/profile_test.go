package profiles

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/topology"
)

// switched is n Hopper GPUs on NVSwitch.
func switched(n int, multicast topology.Answer) backend.Request {
	g := topology.Uniform(n, topology.Link{Class: topology.NVLink, Count: 18}, func(i int) topology.Device {
		return topology.Device{Index: i, Vendor: "nvidia", Capability: "9.0"}
	})
	g.P2P, g.Multicast = topology.P2PReported, multicast
	return backend.Request{
		Group: collective.GPUGroup("g", g, 1), Class: collective.Class{Memory: collective.CUDA, DataType: collective.BFloat16, Captured: true}, Hypothetical: true,
	}
}

func load(t *testing.T, name string) *Profile {
	t.Helper()
	p, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// verdict is what a profile's backend answers.
func verdict(t *testing.T, p *Profile, req backend.Request, s Setup, name string) backend.Verdict {
	t.Helper()
	cs, err := p.Candidates(req, s)
	if err != nil {
		t.Fatal(err)
	}
	d := dispatch.Resolve(t.Context(), cs, req.Group, req.Class, dispatch.Options{AskAll: true, Hypothetical: true})
	i := slices.IndexFunc(d.Answers, func(a dispatch.Answer) bool { return a.Backend == name })
	if i < 0 {
		t.Fatalf("no backend %s", name)
	}
	return d.Answers[i].Verdict
}

func TestProfilesSayWhereTheyAreFrom(t *testing.T) {
	for _, name := range Names() {
		p := load(t, name)
		if !regexp.MustCompile(`^[0-9a-f]{40}$`).MatchString(p.Commit) || p.Engine == "" || p.Assumes == "" {
			t.Errorf("%s: engine %q, commit %q, assumes %q", name, p.Engine, p.Commit, p.Assumes)
		}
	}
	if _, err := Load("../models"); err == nil || !strings.Contains(err.Error(), "want weir, sglang or vllm") {
		t.Errorf("error %v", err)
	}
}

// TestCascadeOrder holds that candidates keep the order of the file, whatever their names.
func TestCascadeOrder(t *testing.T) {
	for _, name := range Names() {
		p := load(t, name)
		req := switched(8, topology.Yes)
		cs, err := p.Candidates(req, Setup{})
		if err != nil {
			t.Fatal(err)
		}
		d := dispatch.Resolve(t.Context(), cs, req.Group, req.Class, dispatch.Options{AskAll: true})
		for i, a := range d.Answers {
			if a.Backend != p.Backends[i].Name {
				t.Errorf("%s: place %d is %s, want %s", name, i, a.Backend, p.Backends[i].Name)
			}
		}
	}
}

func TestGates(t *testing.T) {
	model := func(name string) *Model {
		m, err := FindModel(name)
		if err != nil {
			t.Fatal(err)
		}
		return &m
	}
	for _, c := range []struct {
		profile, backend string
		setup            Setup
		want             string // how the verdict begins
	}{
		{"sglang", "torch-symm-mem", Setup{}, "decline; DISABLED_BY_USER: off by default, needs --enable-torch-symm-mem"},
		{"sglang", "torch-symm-mem", Setup{Enabled: []string{"torch-symm-mem"}}, "accept 1 B to 134217727 B (multiples of 4 B)"},
		{"sglang", "mscclpp", Setup{Enabled: []string{"mscclpp"}}, "accept 1 B to 8 MiB"},
		{"sglang", "flashinfer-trtllm", Setup{Model: model("kimi-k2.5")}, "accept 1 B to 28 MiB"},
		{"sglang", "flashinfer-trtllm", Setup{Model: model("gpt-oss-120b")}, "accept 1 B to 11520 KiB"},
		{"sglang", "flashinfer-trtllm", Setup{Model: model("llama-3.1-70b")}, "decline; DISABLED_BY_USER: off for LlamaForCausalLM, needs --flashinfer-allreduce-fusion-backend auto, or a model of its list"},
		{"sglang", "flashinfer-trtllm", Setup{Model: model("glm-5")}, "accept 1 B to 24 MiB"},
		{"sglang", "flashinfer-trtllm", Setup{Model: &Model{Architecture: "DeepseekV4ForCausalLM", Hidden: 4096}}, "accept 1 B to 16 MiB"},
		{"sglang", "flashinfer-trtllm", Setup{Model: &Model{Architecture: "NemotronHPuzzleForCausalLM", Hidden: 4096}}, "accept 1 B to 16 MiB"},
		{"sglang", "flashinfer-trtllm", Setup{Model: &Model{Hidden: 6144}}, "unknown; PROBE_UNAVAILABLE: model unknown"},
		{"sglang", "flashinfer-trtllm", Setup{}, "unknown; PROBE_UNAVAILABLE: model unknown"},
		{"sglang", "flashinfer-trtllm", Setup{Hidden: 4096}, "unknown; PROBE_UNAVAILABLE: model unknown"},
		{"sglang", "flashinfer-trtllm", Setup{Enabled: []string{"flashinfer-trtllm"}}, "unknown; PROBE_UNAVAILABLE: bytes of a token unknown, needs --hidden or --model"},
		{"sglang", "flashinfer-trtllm", Setup{Hidden: 4096, Enabled: []string{"flashinfer-trtllm"}}, "accept 1 B to 16 MiB"},
		{"vllm", "nccl-symm-mem", Setup{Enabled: []string{"nccl-symm-mem"}}, "unknown; PROBE_UNAVAILABLE: nccl unknown, needs nccl 2.27.3"},
	} {
		p := load(t, c.profile)
		if got := verdict(t, p, switched(8, topology.Yes), c.setup, c.backend).String(); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s, %s: %s\nwant %s", c.backend, fmt.Sprint(c.setup.Enabled), got, c.want)
		}
	}
	_, err := load(t, "vllm").Candidates(switched(2, topology.Yes), Setup{Enabled: []string{"custom", "warp"}})
	if err == nil || !strings.Contains(err.Error(), `no backend "warp"`) {
		t.Errorf("error %v", err)
	}
}

// TestWindowsBeside: vLLM's custom all-reduce leaves large messages to symmetric memory where that is live, whatever
// the type of a single call.
func TestWindowsBeside(t *testing.T) {
	p := load(t, "vllm")
	for _, c := range []struct {
		multicast topology.Answer
		dataType  collective.DataType
		want      string
	}{
		{topology.Yes, collective.BFloat16, "accept 1 B to 262143 B (multiples of 16 B)"},
		{topology.Yes, collective.Float16, "accept 1 B to 262143 B (multiples of 16 B)"},
		{topology.No, collective.BFloat16, "accept 1 B to 8388607 B (multiples of 16 B)"},
		{topology.NotKnown, collective.BFloat16, "accept 1 B to 8388607 B (multiples of 16 B)"},
	} {
		req := switched(8, c.multicast)
		req.Class.DataType = c.dataType
		v := verdict(t, p, req, Setup{}, "custom")
		if v.String() != c.want {
			t.Errorf("multicast %s, %s: %s, want %s", c.multicast, c.dataType, v, c.want)
		}
		said := slices.ContainsFunc(p.Remarks("custom", v, req.Group), func(s string) bool { return strings.Contains(s, "if multicast works") })
		if said != (c.multicast == topology.NotKnown) {
			t.Errorf("multicast %s: remarks %v", c.multicast, p.Remarks("custom", v, req.Group))
		}
	}
}

func TestParseRange(t *testing.T) {
	for text, want := range map[string]backend.Range{
		"all":            {Min: 1, Max: backend.NoLimit},
		"..16KiB":        {Min: 1, Max: 16 << 10},
		"512KiB..":       {Min: 512 << 10, Max: backend.NoLimit},
		"8MiB..2GiB":     {Min: 8 << 20, Max: 2 << 30},
		"<8MiB":          {Min: 1, Max: 8<<20 - 1},
		"..2048 tokens":  {Min: 1, Max: 2048 * 14336},
		"16B..64 tokens": {Min: 16, Max: 64 * 14336},
	} {
		if got, err := parseRange(text, 14336); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "16KiB", "..16", "..x KiB", "2MiB..1MiB", "..many tokens", "..16KB"} {
		if got, err := parseRange(text, 14336); err == nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

// TestMistakesInTheData: a file that is wrong is found when it is loaded.
func TestMistakesInTheData(t *testing.T) {
	for yaml, words := range map[string]string{
		"colour: red": "field colour not found",
		"backends: [{name: a, title: b, requires: {ranks: [two]}}]":     `ranks "two"`,
		"backends: [{name: a, title: b, requires: {ranks: [8-2]}}]":     `ranks "8-2"`,
		"backends: [{name: a, title: b, requires: {memories: [tape]}}]": `"tape"`,
		"backends: [{name: a}]":                                                                "without a name or a title",
		"backends: [{name: a, title: b}, {name: a, title: b}]":                                 "a stands twice",
		"backends: [{name: a, title: b, requires: {windows: [{ranks: \"2\"}]}}]":               "a window without bytes",
		"backends: [{name: a, title: b, requires: {limit: 1KiB, windows: [{bytes: 2KiB..}]}}]": "beyond the limit",
		"backends: [{name: a, title: b, remarks: [{codes: [MOOD], text: x}]}]":                 `"MOOD", which does not exist`,
		"backends: [{name: a, title: b, remarks: [{}]}]":                                       "a remark without a text",
		"backends: [{name: a, title: b, windows_beside: {c: [{bytes: all}]}}]":                 "beside c, which is no backend",
	} {
		p := &Profile{Name: "test"}
		err := decode("test.yaml", []byte(yaml), p)
		if err == nil {
			err = p.validate()
		}
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s\n  error %v, want one with %q", yaml, err, words)
		}
	}
}

// TestModels are the figures of the published configurations.
func TestModels(t *testing.T) {
	for name, want := range map[string]Model{
		"kimi-k2.5":      {Name: "kimi-k2.5", Hidden: 7168, Layers: 61, AllReduces: 122, Architecture: "KimiK25ForConditionalGeneration"},
		"DeepSeek-V3":    {Name: "deepseek-v3", Hidden: 7168, Layers: 61, AllReduces: 122, Architecture: "DeepseekV3ForCausalLM"},
		"llama-3.1-405b": {Name: "llama-3.1-405b", Hidden: 16384, Layers: 126, AllReduces: 252, Architecture: "LlamaForCausalLM"},
	} {
		got, err := FindModel(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	all := map[string]Model{}
	if err := read("models.yaml", &all); err != nil {
		t.Fatal(err)
	}
	for name, m := range all {
		if m.AllReduces != 2*m.Layers || m.Hidden < 1 || name != strings.ToLower(name) {
			t.Errorf("%s: %+v", name, m)
		}
	}
}
