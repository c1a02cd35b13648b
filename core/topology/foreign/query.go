package foreign

import (
	"regexp"
	"strings"

	"github.com/weir-project/weir/core/topology"
)

// The parts of what `nvidia-smi -q -x` prints that count: a <gpu> for each GPU in nvidia-smi's order, with the PCI address
// as id, below <nvidia_smi_log>, which is often left out of a paste. The tags are those of public texts,
// the newest of nvsmi_device_v13.dtd.
var (
	queryGPU      = regexp.MustCompile(`<gpu id="([^"<>]{1,40})">`)
	queryField    = regexp.MustCompile(`<(product_name|uuid|current_mig)>\s*([^<]*?)\s*</`)
	queryAttached = regexp.MustCompile(`<attached_gpus>\s*(\d+)\s*</`)
)

const queryEnd = "</nvidia_smi_log>"

// readQuery reads the GPUs that `nvidia-smi -q -x` describes. It holds no link.
func readQuery(src source) []Reading {
	var all []Reading
	for _, log := range strings.SplitAfter(string(src.text), queryEnd) {
		if at := queryGPU.FindAllStringSubmatchIndex(log, -1); len(at) > 0 {
			all = append(all, queried(log, at))
		}
	}
	return all
}

// queried reads one log; at is where its GPUs begin.
func queried(log string, at [][]int) Reading {
	r := Reading{Formats: []string{QueryXML}, Complete: Whole}
	if len(at) > maxDevices {
		at = at[:maxDevices]
		r.capped()
	}
	for i, begin := range at {
		end := len(log)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		id := log[begin[2]:begin[3]]
		d := topology.Device{Index: i, PCIBusID: shortBus(id)}
		if d.PCIBusID == "" {
			r.warn("the XML of `nvidia-smi -q -x` has the GPU id %q, which is no PCI address"+passedOver, id)
		}
		for _, f := range queryField.FindAllStringSubmatch(log[begin[1]:end], -1) {
			switch {
			case f[1] == "product_name" && d.Name == "":
				d.Name = f[2]
			case f[1] == "uuid" && strings.HasPrefix(f[2], "GPU-"):
				d.UUID = f[2]
			case f[1] == "current_mig" && f[2] == "Enabled":
				r.warn(migNote)
			}
		}
		r.Graph.Devices = append(r.Graph.Devices, d)
	}
	attached := queryAttached.FindStringSubmatch(log[:at[0][0]])
	n := len(at)
	if whole := strings.HasSuffix(log, queryEnd); attached != nil {
		n, _ = number(attached[1])
	} else if !whole || !strings.Contains(log, "<nvidia_smi_log>") {
		n++ // there may be more
	}
	if n > len(at) {
		r.Complete, r.more = Cut, true
		r.warn("the XML of `nvidia-smi -q -x` is not whole: there may be more GPUs than the %d shown", len(at))
	}
	b := builder{Reading: &r}
	b.finish()
	return r
}

// shortBus writes a PCI address with four digits of the domain, as sysfs does; "" if the text is none.
func shortBus(s string) string {
	if len(s) == len("00000000:17:00.0") && strings.HasPrefix(s, "0000") {
		s = s[4:]
	}
	return address(s)
}

// withQueries adds to a machine whose links another text shows what `nvidia-smi -q -x` says of its GPUs.
func withQueries(readings, queries []Reading) []Reading {
	if len(readings) != 1 || len(queries) != 1 || len(readings[0].Graph.Devices) != len(queries[0].Graph.Devices) {
		for i := range queries {
			queries[i].warn("`nvidia-smi -q -x` says nothing on links: add the output of `nvidia-smi topo -m` of the same machine")
		}
		return append(readings, queries...)
	}
	r, q := readings[0], queries[0]
	for i := range r.Graph.Devices {
		d := &r.Graph.Devices[i]
		for _, from := range q.Graph.Devices { // by address where the text has it: NCCL counts as CUDA does
			if d.PCIBusID != "" && d.PCIBusID == from.PCIBusID || d.PCIBusID == "" && d.Index == from.Index {
				d.PCIBusID, d.Name, d.UUID = from.PCIBusID, from.Name, from.UUID
				break
			}
		}
	}
	r.Formats = append(r.Formats, q.Formats...)
	for _, w := range q.Warnings {
		if w == migNote || strings.HasSuffix(w, passedOver) {
			r.warn("%s", w)
		}
	}
	return []Reading{r}
}
