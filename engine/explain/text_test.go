package explain_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/diagnose"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/engine/explain"
)

// trim drops what tabwriter leaves at line ends.
func trim(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// pcie is four GPUs on PCIe whose peer-to-peer access the driver reports, and three backends.
func pcie() explain.Answer {
	g := topology.Uniform(4, topology.Link{Class: topology.NODE}, func(i int) topology.Device {
		return topology.Device{Index: i + 4, Vendor: "nvidia", Capability: "12.0"}
	})
	g.P2P, g.Multicast = topology.P2PReported, topology.No
	small := backend.Range{Min: 1, Max: 64 << 10}
	candidates := []dispatch.Candidate{
		{Plugin: "kernels", Info: backend.Info{Name: "two-shot", Kind: plan.KernelKind, Requirements: backend.Requirements{P2P: topology.P2PVerified}}},
		{Plugin: "kernels", Info: backend.Info{Name: "one-shot", Kind: plan.KernelKind, Requirements: backend.Requirements{
			WorldSizes: backend.Exactly(2, 8), Links: []topology.Class{topology.NVLink},
		}}},
		{Plugin: "staged", Info: backend.Info{Name: "staged", Kind: plan.KernelKind}},
		{Plugin: "nccl", Info: backend.Info{Name: "nccl", Kind: plan.LibraryKind}},
	}
	req := backend.Request{Group: collective.GPUGroup("g", g, 1), Class: collective.Class{Memory: collective.CUDA, DataType: collective.BFloat16}, Hypothetical: true}
	d := dispatch.Decision{Class: req.Class, Answers: []dispatch.Answer{
		{Backend: "two-shot", Plugin: "kernels", Verdict: candidates[0].Info.Check(req)},
		{Backend: "one-shot", Plugin: "kernels", Verdict: candidates[1].Info.Check(req)},
		{Backend: "staged", Plugin: "staged", Verdict: backend.Accepted(small)},
		{Backend: "nccl", Plugin: "nccl", Verdict: backend.Accepted(backend.AllBytes()...)},
	}}
	d.Table = dispatch.NewTable([][]backend.Range{nil, nil, {small}, backend.AllBytes()})
	return explain.New(explain.Answer{
		Profile: "weir", Topology: explain.Topology{Source: "a.txt", Format: "nvidia-smi topo -m", Complete: "no", Devices: []int{4, 5, 6, 7}},
		Request: req, Decision: d, Warnings: []string{"the text is cut"},
		Findings: []diagnose.Finding{{Code: diagnose.P2PNotProven, Text: "eligible by class", Do: "test it"}},
		Sizes:    []explain.Size{{Bytes: 14336, Tokens: 1}, {Bytes: 28672, Tokens: 2}, {Bytes: 1 << 20, Tokens: 73}},
		Model:    &explain.Model{Name: "kimi-k2.5", Hidden: 7168, AllReduces: 122},
	}, candidates)
}

const wantText = `topology: a.txt (nvidia-smi topo -m), incomplete
group:    4 ranks on GPU4 to GPU7; worst link NODE; full NVLink no; P2P reported; multicast no
request:  cuda bfloat16 sum eager
model:    kimi-k2.5, hidden size 7168, 122 all-reduces a pass

14 KiB (1 token): staged
28 KiB (2 tokens): staged
1 MiB (73 tokens): nccl

1 B to 64 KiB, asked 14 KiB (1 token), 28 KiB (2 tokens): staged
  (or, if what is unknown turns out well: two-shot)
  BACKEND   VERDICT  REASON             OBSERVED                                             REQUIRED              WOULD ACCEPT IF
  two-shot  unknown  PROBE_UNAVAILABLE  peer-to-peer access reported, proof unknown (` + "`weir doctor`" + ` on the machine finds out)          verified              P2P were verified
  one-shot  decline  WORLD_SIZE         4                                                    2, 8                  every pair were linked by NVLink, and
                     LINK_NOT_FULL      NODE (ranks 0-1, 0-2, 1-2, 0-3 and 2 more pairs)     NVLink on every pair  the group had 2 or 8 ranks
  staged    chosen
  nccl      accept

65537 B and more, asked 1 MiB (73 tokens): nccl
  (or, if what is unknown turns out well: two-shot)
  BACKEND   VERDICT  REASON             OBSERVED                                             REQUIRED              WOULD ACCEPT IF
  two-shot  unknown  PROBE_UNAVAILABLE  peer-to-peer access reported, proof unknown (` + "`weir doctor`" + ` on the machine finds out)          verified              P2P were verified
  one-shot  decline  WORLD_SIZE         4                                                    2, 8                  every pair were linked by NVLink, and
                     LINK_NOT_FULL      NODE (ranks 0-1, 0-2, 1-2, 0-3 and 2 more pairs)     NVLink on every pair  the group had 2 or 8 ranks
  staged    decline  TOO_LARGE          1 MiB                                                1 B to 64 KiB
  nccl      chosen

warning: the text is cut

P2P_NOT_PROVEN: eligible by class
  do: test it
`

// squeeze makes runs of blanks one, for tables whose columns are as wide as their content.
func squeeze(s string) []string {
	lines := strings.Split(trim(s), "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	return lines
}

func TestText(t *testing.T) {
	var got strings.Builder
	if err := pcie().Text(&got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(squeeze(wantText), squeeze(got.String())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTextOfEverySpan(t *testing.T) {
	var got strings.Builder
	if err := answer().Text(&got); err != nil {
		t.Fatal(err)
	}
	for _, heading := range []string{
		"\n1 B to 15 B: no backend\n", "\n16 B to 32 B: small for multiples of 16 B\n", "\n33 B to 64 B: small for multiples of 16 B, else large\n",
		"\n65 B to 96 B: large\n", "\n97 B to 199 B: no backend\n", "\n1 MiB and more: large for multiples of 4 B\n",
	} {
		if !strings.Contains(got.String(), heading) {
			t.Errorf("no heading %q in\n%s", heading, got.String())
		}
	}
}

func TestComparison(t *testing.T) {
	a, b := pcie(), pcie()
	b.Profile = "vllm"
	b.Decision.Table = dispatch.NewTable([][]backend.Range{nil, nil, nil, {{Min: 1, Max: backend.NoLimit}}})
	a.Sizes, b.Sizes = nil, nil
	var got strings.Builder
	if err := (explain.Comparison{a, b}).Text(&got); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"SIZES WEIR VLLM", "1 B to 64 KiB staged nccl", "65537 B and more nccl nccl",
		"(or, if what is unknown turns out well, weir: two-shot)", "(or, if what is unknown turns out well, vllm: two-shot)", "why weir runs that:", "why vllm runs that:",
		"staged accept nothing: others before it serve its 1 B to 64 KiB", "would accept if P2P were verified", "P2P_NOT_PROVEN: eligible by class",
	} {
		if !strings.Contains(strings.Join(squeeze(got.String()), "\n"), want) {
			t.Errorf("%q is not in\n%s", want, got.String())
		}
	}
	var json strings.Builder
	if err := explain.Encode(&json, explain.Comparison{a, b}.JSON()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"min": 1, "max": 65536, "backends": { "vllm": "nccl", "weir": "staged" }`, `"min": 65537, "max": null`, `"vllm": { "profile": "vllm"`} {
		if !strings.Contains(strings.Join(strings.Fields(json.String()), " "), want) {
			t.Errorf("%s is not in\n%s", want, json.String())
		}
	}
}

func TestDiff(t *testing.T) {
	before := pcie().JSON()
	changed := pcie()
	changed.Decision.Answers[0].Verdict = backend.Accepted(backend.Range{Min: 1, Max: 1 << 20})
	changed.Decision.Answers[2].Verdict = backend.Declined(backend.Because(backend.Arch, "12.0", "9.0"))
	changed.Decision.Answers[3].Backend = "rccl"
	changed.Decision.Table = dispatch.NewTable([][]backend.Range{{{Min: 1, Max: 1 << 20}}, nil, nil, backend.AllBytes()})
	changed.Request.Group.P2P = topology.P2PVerified
	want := explain.Difference{
		Questions: []string{"P2P was reported, now verified"},
		Verdicts: []string{
			"two-shot: was unknown, now accepted (1 B to 1 MiB)",
			"staged: was accepted, now declined (ARCH: 12.0, needs 9.0)",
			"nccl: was accepted (all sizes), now not there",
			"rccl: was not there, now accepted (all sizes)",
		},
		Chosen: []string{"1 B to 64 KiB: was staged, now two-shot", "65537 B to 1 MiB: was nccl, now two-shot", "1048577 B and more: was nccl, now rccl"},
	}
	got := explain.Diff(before, changed.JSON())
	if diff := cmp.Diff(want, got); diff != "" || !got.Changed() {
		t.Errorf("(-want +got):\n%s", diff)
	}
	narrower := pcie()
	narrower.Decision.Answers[2].Verdict = backend.Accepted(backend.Range{Min: 1, Max: 1 << 10})
	if got := explain.Diff(before, narrower.JSON()); !cmp.Equal(got.Verdicts, []string{"staged: was accepted (1 B to 64 KiB), now accepted (1 B to 1 KiB)"}) {
		t.Errorf("other sizes: %v", got.Verdicts)
	}
	if same := explain.Diff(before, before); same.Changed() || len(same.Questions) > 0 {
		t.Errorf("the same differs: %+v", same)
	}
}
