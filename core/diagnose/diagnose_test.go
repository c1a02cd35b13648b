package diagnose_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/samber/lo"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/diagnose"
	"github.com/weir-project/weir/core/topology"
)

// machine reads rows of links such as "X NV4 PIX".
func machine(t *testing.T, capability string, rows ...string) topology.Graph {
	t.Helper()
	g := topology.Uniform(len(rows), topology.Link{}, func(i int) topology.Device {
		return topology.Device{Index: i, Vendor: "nvidia", Capability: capability}
	})
	for a, row := range rows {
		for b, cell := range strings.Fields(row) {
			if cell == "X" {
				continue
			}
			if err := g.Links[a][b].UnmarshalText([]byte(cell)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return g
}

// uniform is n GPUs linked alike.
func uniform(n int, capability, link string) topology.Graph {
	var l topology.Link
	_ = l.UnmarshalText([]byte(link))
	return topology.Uniform(n, l, func(i int) topology.Device {
		return topology.Device{Index: i, Vendor: "nvidia", Capability: capability}
	})
}

// of is the question about some devices of a machine.
func of(t *testing.T, g topology.Graph, positions []int, change ...func(*diagnose.Subject)) diagnose.Subject {
	t.Helper()
	if positions == nil {
		positions = lo.Range(len(g.Devices))
	}
	sub, err := g.Sub(positions)
	if err != nil {
		t.Fatal(err)
	}
	s := diagnose.Subject{
		Machine: g, Positions: positions, Group: collective.GPUGroup("g", sub, 1),
		Class: collective.Class{Memory: collective.CUDA, DataType: collective.BFloat16},
	}
	s.Group.Multicast, _ = diagnose.Multicast(g, positions)
	for _, f := range change {
		f(&s)
	}
	return s
}

func p2p(p topology.P2P) func(*diagnose.Subject) {
	return func(s *diagnose.Subject) { s.Group.P2P = p }
}

func named(name string) func(*diagnose.Subject) {
	return func(s *diagnose.Subject) {
		for _, r := range s.Group.Ranks {
			r.Device.Name = name
		}
	}
}

func codes(all []diagnose.Finding) []diagnose.Code {
	return lo.Map(all, func(f diagnose.Finding, _ int) diagnose.Code { return f.Code })
}

var dgx1 = []string{
	"X NV1 NV1 NV2 NV2 SYS SYS SYS", "NV1 X NV2 NV1 SYS NV2 SYS SYS", "NV1 NV2 X NV2 SYS SYS NV1 SYS", "NV2 NV1 NV2 X SYS SYS SYS NV1",
	"NV2 SYS SYS SYS X NV1 NV1 NV2", "SYS NV2 SYS SYS NV1 X NV2 NV1", "SYS SYS NV1 SYS NV1 NV2 X NV2", "SYS SYS SYS NV1 NV2 NV1 NV2 X",
}

func TestFindings(t *testing.T) {
	const (
		notProven, acs, hang = diagnose.P2PNotProven, diagnose.ACSOrIOMMU, diagnose.NCCLMayHang
		test, corrupt        = diagnose.SelfTest, diagnose.SilentCorruption
	)
	host := func(s *diagnose.Subject) { s.Class.Memory = collective.Host }
	npus := func(s *diagnose.Subject) {
		for _, r := range s.Group.Ranks {
			r.Device.Vendor = "huawei"
		}
	}
	multicast := func(s *diagnose.Subject) { s.Group.Multicast = topology.Yes }
	noMulticast := func(s *diagnose.Subject) { s.Group.Multicast = topology.No }
	for _, c := range []struct {
		name    string
		subject diagnose.Subject
		want    []diagnose.Code
	}{
		{"host memory", of(t, uniform(4, "9.0", "SYS"), nil, host), nil},
		{"parts of GPUs", of(t, uniform(2, "9.0", "NV18"), nil, p2p(topology.P2PNone), func(s *diagnose.Subject) { s.Divided = true }), []diagnose.Code{diagnose.Divided, diagnose.MulticastNotProven, diagnose.P2PAbsent}},
		{"one GPU", of(t, uniform(1, "9.0", "SYS"), nil), nil},
		{"PCIe, P2P unknown", of(t, uniform(2, "9.0", "PXB"), nil), []diagnose.Code{notProven, acs, hang, test}},
		{"PCIe, P2P reported", of(t, uniform(2, "12.0", "PHB"), nil, p2p(topology.P2PReported)), []diagnose.Code{notProven, acs, corrupt, hang, test}},
		{
			"PCIe, P2P reported, a data-centre card", of(t, uniform(2, "12.0", "PHB"), nil, p2p(topology.P2PReported), named("NVIDIA RTX PRO 6000 Blackwell")),
			[]diagnose.Code{notProven, acs, hang, test},
		},
		{
			"PCIe, P2P reported, a consumer card", of(t, uniform(2, "8.6", "PHB"), nil, p2p(topology.P2PReported), named("NVIDIA GeForce RTX 3090")),
			[]diagnose.Code{notProven, acs, corrupt, hang, test},
		},
		{"PCIe, P2P verified", of(t, uniform(8, "12.0", "SYS"), nil, p2p(topology.P2PVerified)), []diagnose.Code{test}},
		{"PCIe, no P2P", of(t, uniform(2, "12.0", "PHB"), nil, p2p(topology.P2PNone)), []diagnose.Code{diagnose.P2PAbsent}},
		{"links unknown", of(t, uniform(2, "12.0", "unknown"), nil, p2p(topology.P2PReported)), []diagnose.Code{diagnose.LinksUnknown, notProven, acs, corrupt, hang, test}},
		{"NVSwitch", of(t, uniform(8, "9.0", "NV18"), nil), []diagnose.Code{diagnose.MulticastNotProven, test}},
		{"NVSwitch, capability unknown", of(t, uniform(8, "", "NV18"), nil), []diagnose.Code{diagnose.CapabilityUnknown, diagnose.MulticastNotProven, test}},
		{"NVSwitch with multicast", of(t, uniform(8, "9.0", "NV18"), nil, multicast), []diagnose.Code{test}},
		{"NVSwitch, multicast told to be off", of(t, uniform(8, "9.0", "NV18"), nil, noMulticast), []diagnose.Code{test}},
		{"bridge", of(t, uniform(2, "8.6", "NV4"), nil), []diagnose.Code{diagnose.NoNVSwitch, test}},
		{"bridge, capability unknown", of(t, uniform(2, "", "NV2"), nil), []diagnose.Code{diagnose.CapabilityUnknown, diagnose.NoNVSwitch, test}},
		{"NPUs over PCIe", of(t, uniform(8, "", "PXB"), nil, npus), []diagnose.Code{test}},
		{"NPUs, links unknown", of(t, uniform(8, "", "unknown"), nil, npus), []diagnose.Code{diagnose.LinksUnknown, test}},
		{"cube mesh", of(t, machine(t, "7.0", dgx1...), nil), []diagnose.Code{diagnose.PartialNVLink, notProven, acs, hang, test}},
		{
			"two quads of a cube mesh", of(t, machine(t, "7.0", dgx1...), []int{0, 1, 4, 5}),
			[]diagnose.Code{diagnose.IndexIsNotIdentity, diagnose.PartialNVLink, notProven, acs, hang, test},
		},
		{"the first quad", of(t, machine(t, "7.0", dgx1...), []int{0, 1, 2, 3}), []diagnose.Code{diagnose.NoNVSwitch, test}},
		{"the second quad, which an index check takes for the like first", of(t, machine(t, "7.0", dgx1...), []int{4, 5, 6, 7}), []diagnose.Code{diagnose.NoNVSwitch, test}},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := diagnose.Findings(c.subject)
			if diff := cmp.Diff(c.want, codes(all), cmp.Transformer("nil", func(c []diagnose.Code) []diagnose.Code { return append([]diagnose.Code{}, c...) })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			order := diagnose.Codes()
			if !slices.IsSortedFunc(all, func(a, b diagnose.Finding) int { return slices.Index(order, a.Code) - slices.Index(order, b.Code) }) {
				t.Errorf("not in the order of Codes: %v", codes(all))
			}
		})
	}
}

func TestSeveralHosts(t *testing.T) {
	s := of(t, uniform(8, "9.0", "NV18"), nil)
	s.Group = collective.GPUGroup("g", s.Machine, 2)
	all := codes(diagnose.Findings(s))
	if !slices.Contains(all, diagnose.SeveralHosts) || slices.Contains(all, diagnose.MulticastNotProven) {
		t.Errorf("%v", all)
	}
}

func TestAMDOverPCIe(t *testing.T) {
	g := topology.Uniform(2, topology.Link{Class: topology.PCIe}, func(i int) topology.Device {
		return topology.Device{Index: i, Vendor: "amd", Capability: "gfx1100"}
	})
	all := diagnose.Findings(of(t, g, nil, p2p(topology.P2PReported)))
	if slices.Contains(codes(all), diagnose.SilentCorruption) {
		t.Errorf("what was seen of NVIDIA's cards is said of AMD's: %v", codes(all))
	}
	f, _ := lo.Find(all, func(f diagnose.Finding) bool { return f.Code == diagnose.NCCLMayHang })
	if !strings.HasPrefix(f.Text, "RCCL uses") {
		t.Errorf("%+v", f)
	}
}

func TestAMDNeedsItsPart(t *testing.T) {
	g := topology.Uniform(2, topology.Link{Class: topology.XGMI}, func(i int) topology.Device { return topology.Device{Index: i, Vendor: "amd"} })
	all := diagnose.Findings(of(t, g, nil))
	if len(all) == 0 || all[0].Code != diagnose.CapabilityUnknown || !strings.Contains(all[0].Text+all[0].Do, "MI300") {
		t.Errorf("%+v", all)
	}
}

// TestFindingsSayWhatToDo holds what users are to read for each diagnosis.
func TestFindingsSayWhatToDo(t *testing.T) {
	say := func(code diagnose.Code, s diagnose.Subject, words ...string) {
		t.Helper()
		f, ok := lo.Find(diagnose.Findings(s), func(f diagnose.Finding) bool { return f.Code == code })
		if !ok {
			t.Errorf("no %s", code)
		}
		for _, w := range words {
			if !strings.Contains(f.Text+" "+f.Do, w) {
				t.Errorf("%s does not say %q: %s / %s", code, w, f.Text, f.Do)
			}
		}
	}
	pcie := uniform(4, "12.0", "PIX")
	say(diagnose.P2PNotProven, of(t, pcie, nil), "eligible by class, P2P not proven", "P2P unknown", "topo -p2p")
	say(diagnose.P2PNotProven, of(t, pcie, nil, p2p(topology.P2PReported)), "eligible by class, P2P not proven", "necessary and not sufficient", "compare the data", "opt-in")
	say(diagnose.ACSOrIOMMU, of(t, pcie, nil), "ACS", "IOMMU", "VT-d", "lspci")
	say(diagnose.NCCLMayHang, of(t, pcie, nil), "NCCL_P2P_DISABLE=1", "NCCL_P2P_LEVEL=NVL", "the fallback itself")
	say(diagnose.P2PAbsent, of(t, pcie, nil, p2p(topology.P2PNone)), "peer access is not supported between these two devices", "error 101", "NCCL")
	say(diagnose.SilentCorruption, of(t, pcie, nil, p2p(topology.P2PReported)), "wrong sums", "opt-in", "if these are consumer cards")
	say(diagnose.MulticastNotProven, of(t, uniform(8, "9.0", "NV18"), nil), "Fabric Manager", "401", "NCCL_NVLS_ENABLE=0", "on NVSwitch")
	say(diagnose.MulticastNotProven, of(t, uniform(2, "9.0", "NV18"), nil), "no proof of a switch")
	say(diagnose.NoNVSwitch, of(t, uniform(2, "9.0", "NV12"), nil), "bridge", "two-shot")
	say(diagnose.IndexIsNotIdentity, of(t, machine(t, "7.0", dgx1...), []int{0, 1, 4, 5}), "GPU0, GPU1, GPU4, GPU5", "GPU0, GPU1, GPU2, GPU3", "full NVLink yes", "UUID")
	say(diagnose.PartialNVLink, of(t, machine(t, "7.0", dgx1...), nil), "GPU0, GPU1, GPU2, GPU3; GPU4, GPU5, GPU6, GPU7")
	say(diagnose.SelfTest, of(t, uniform(2, "7.5", "NV2"), nil), "full NVLink", "self-test")
}

func TestMulticast(t *testing.T) {
	pairs := machine(t, "", "X NV12 SYS SYS", "NV12 X SYS SYS", "SYS SYS X NV12", "SYS SYS NV12 X")
	hopperPairs := machine(t, "9.0", "X NV18 SYS SYS", "NV18 X SYS SYS", "SYS SYS X NV18", "SYS SYS NV18 X")
	for _, c := range []struct {
		name      string
		graph     topology.Graph
		positions []int
		want      topology.Answer
		why       string
	}{
		{"NVSwitch", uniform(8, "9.0", "NV18"), []int{0, 1, 2, 3}, topology.NotKnown, "on NVSwitch"},
		{"a degraded link on NVSwitch", uniform(8, "9.0", "NV17"), []int{0, 1}, topology.NotKnown, "on NVSwitch"},
		{"H800", uniform(8, "9.0", "NV8"), []int{0, 1, 2, 3}, topology.NotKnown, "on NVSwitch"},
		{"two of a machine", uniform(8, "9.0", "NV18"), []int{3, 5}, topology.NotKnown, "on NVSwitch"},
		{"a pair alone", uniform(2, "9.0", "NV18"), []int{0, 1}, topology.NotKnown, "no proof of a switch"},
		{"A100", uniform(8, "8.0", "NV12"), []int{0, 1}, topology.No, "8.0 has no multicast"},
		{"PCIe", uniform(2, "9.0", "PHB"), []int{0, 1}, topology.No, "not every pair"},
		{"across pairs", pairs, []int{0, 1, 2, 3}, topology.No, "not every pair"},
		{"a pair of pairs", pairs, []int{2, 3}, topology.No, "NV12 is a bridge"},
		{"a pair of pairs with all links", hopperPairs, []int{0, 1}, topology.No, "GPU2 of the same host is not linked"},
		{"four-way bridge", uniform(4, "9.0", "NV6"), []int{0, 1, 2, 3}, topology.No, "NV6 is a bridge"},
		{"bridge", uniform(2, "", "NV4"), []int{0, 1}, topology.No, "NV4 is a bridge"},
		{"unknown links", uniform(2, "9.0", "unknown"), []int{0, 1}, topology.NotKnown, "not every link is known"},
		{"one GPU", uniform(2, "9.0", "NV18"), []int{0}, topology.NotKnown, ""},
		{"no such GPU", uniform(2, "9.0", "NV18"), []int{0, 7}, topology.NotKnown, ""},
	} {
		if got, why := diagnose.Multicast(c.graph, c.positions); got != c.want || !strings.Contains(why, c.why) {
			t.Errorf("%s: %s (%s), want %s (%s)", c.name, got, why, c.want, c.why)
		}
	}
}

// TestConsumerNames holds apart cards whose names are much alike.
func TestConsumerNames(t *testing.T) {
	for name, consumer := range map[string]bool{
		"NVIDIA GeForce RTX 5090": true, "RTX 3090": true, "GeForce GTX 1080 Ti": true, "NVIDIA TITAN RTX": true, "NVIDIA RTX 4070": true,
		"NVIDIA RTX PRO 6000 Blackwell": false, "NVIDIA RTX 6000 Ada Generation": false, "NVIDIA RTX A6000": false, "Quadro RTX 8000": false,
		"NVIDIA L40S": false, "NVIDIA H100 80GB HBM3": false, "NVIDIA RTX 4000 SFF Ada Generation": false,
	} {
		all := codes(diagnose.Findings(of(t, uniform(2, "8.9", "PHB"), nil, p2p(topology.P2PReported), named(name))))
		if got := slices.Contains(all, diagnose.SilentCorruption); got != consumer {
			t.Errorf("%s is taken for a consumer card: %v, want %v", name, got, consumer)
		}
	}
}
