package foreign_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/core/topology/foreign"
)

// twoGPUs is NCCL's XML of two GPUs with an NVLink; the address of the first, and what the link of the second leads to, are given.
func twoGPUs(cpu, bus, target string) string {
	return fmt.Sprintf(`<!DOCTYPE system [<!ENTITY x "0000:17:00.0">]>
<system version="1">
  <cpu host_hash="0x1" arch="x86_64" vendor="GenuineIntel" %s>
    <pci busid="%s" class="0x030200"><gpu dev="0" sm="90" rank="0"><nvlink target="0000:2a:00.0" count="18" tclass="0x030200"/></gpu></pci>
    <pci busid="0000:2a:00.0" class="0x030200"><gpu dev="1" sm="90" rank="1"><nvlink target="%s" count="18" tclass="0x030200"/></gpu></pci>
  </cpu>
</system>
`, cpu, bus, target)
}

// TestXMLValues holds that only what can be an address, a node or a mask is shown as one, and that a link is not made up for want of it.
func TestXMLValues(t *testing.T) {
	const cpu, bus = `numaid="0" affinity="ffff,00000000"`, "0000:17:00.0"
	nvlink := topology.Link{Class: topology.NVLink, Count: 18}
	for name, c := range map[string]struct {
		text, bus, numa, affinity string
		link                      topology.Link
		warning                   string
	}{
		"good":                {twoGPUs(cpu, bus, bus), bus, "0", "ffff,00000000", nvlink, ""},
		"upper case":          {twoGPUs(cpu, "0000:AF:00.0", "0000:af:00.0"), "0000:af:00.0", "0", "ffff,00000000", nvlink, ""},
		"eight digits":        {twoGPUs(cpu, "00010000:17:00.0", "00010000:17:00.0"), "00010000:17:00.0", "0", "ffff,00000000", nvlink, ""},
		"an entity":           {twoGPUs(cpu, "&x;", "&x;"), "", "0", "ffff,00000000", topology.Link{}, `busid "&x;", which is no PCI address: it is passed over`},
		"words":               {twoGPUs(cpu, "N/A", bus), "", "0", "ffff,00000000", topology.Link{}, `busid "N/A"`},
		"no number":           {twoGPUs(cpu, "0000:1g:00.0", bus), "", "0", "ffff,00000000", topology.Link{}, `busid "0000:1g:00.0"`},
		"a path":              {twoGPUs(cpu, "../../etc/passwd", bus), "", "0", "ffff,00000000", topology.Link{}, `busid "../../etc/passwd"`},
		"link to an entity":   {twoGPUs(cpu, bus, "&x;"), bus, "0", "ffff,00000000", topology.Link{}, `target "&x;", which is no PCI address`},
		"a node of an entity": {twoGPUs(`numaid="&x;" affinity="ff"`, bus, bus), bus, "", "ff", nvlink, `numaid "&x;", which is no number of a NUMA node`},
		"no node":             {twoGPUs(`numaid="-1" affinity="ff"`, bus, bus), bus, "-1", "ff", nvlink, ""},
		"a mask of an entity": {twoGPUs(`numaid="0" affinity="&x;"`, bus, bus), bus, "0", "", nvlink, `affinity "&x;", which is no mask of processors`},
	} {
		r, err := foreign.Read([]byte(c.text))
		if err != nil || len(r.Graph.Devices) != 2 {
			t.Errorf("%s: %v %+v", name, err, r)
			continue
		}
		d := r.Graph.Devices[0]
		if d.PCIBusID != c.bus || d.NUMA != c.numa || d.CPUAffinity != c.affinity {
			t.Errorf("%s: %+v", name, d)
		}
		// The link of the other direction may be known: what leads there names the second GPU.
		if got := r.Graph.Links[1][0]; got != c.link {
			t.Errorf("%s: link %s, want %s", name, got, c.link)
		}
		all := strings.Join(r.Warnings, "\n")
		if !strings.Contains(all, c.warning) || (c.warning == "") != !strings.Contains(all, "passed over") {
			t.Errorf("%s: warnings %s, want %q", name, all, c.warning)
		}
	}
}

// TestQueryValues holds the same of `nvidia-smi -q -x`, and that GPUs without an address are told apart.
func TestQueryValues(t *testing.T) {
	const log = `<nvidia_smi_log><attached_gpus>2</attached_gpus>
<gpu id="&x;"><product_name>A</product_name><uuid>GPU-0</uuid></gpu>
<gpu id=":::::"><product_name>B</product_name><uuid>GPU-1</uuid></gpu>
</nvidia_smi_log>
`
	for name, text := range map[string]string{"alone": log, "with a matrix": square("X NV4", "NV4 X") + log} {
		r, err := foreign.Read([]byte(text))
		if err != nil || len(r.Graph.Devices) != 2 {
			t.Errorf("%s: %v %+v", name, err, r)
			continue
		}
		for i, d := range r.Graph.Devices {
			if d.PCIBusID != "" || d.UUID != "GPU-"+itoa(i) {
				t.Errorf("%s: GPU %d is %+v", name, i, d)
			}
		}
		if all := strings.Join(r.Warnings, "\n"); !strings.Contains(all, `GPU id "&x;", which is no PCI address: it is passed over`) {
			t.Errorf("%s: %s", name, all)
		}
	}
}
