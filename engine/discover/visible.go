package discover

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/topology"
)

// visibleVariable limits the GPUs that CUDA programs see.
const visibleVariable = "CUDA_VISIBLE_DEVICES"

// Seen is a GPU that CUDA programs see, or the part of one.
type Seen struct {
	Position int    // in the graph's devices
	MIG      string // UUID of the part; "" for the whole GPU
}

// Visible are the GPUs that CUDA programs see under a value of CUDA_VISIBLE_DEVICES, in the order in which they number
// them. It reads the value as CUDA does: entries are numbers, or UUIDs, or parts of divided GPUs, all of the kind of the
// first; a UUID may be shortened as long as it fits one GPU; the first entry that means nothing ends the list; one that
// is repeated makes it empty, and so does an empty value. Numbers count the devices in the order of the graph, which is
// CUDA's own unless GPUs differ and CUDA_DEVICE_ORDER is not PCI_BUS_ID.
//
// The rules are those that PyTorch follows too (torch/cuda, _parse_visible_devices).
func Visible(devices []topology.Device, value string) []Seen {
	find := byNumber
	switch {
	case strings.HasPrefix(value, "GPU-"):
		find = byUUID
	case strings.HasPrefix(value, "MIG-"):
		find = byPart
	}
	var seen []Seen
	for entry := range strings.SplitSeq(value, ",") {
		s, ok := find(devices, strings.TrimSpace(entry))
		if !ok {
			break
		}
		if slices.Contains(seen, s) {
			return nil
		}
		seen = append(seen, s)
	}
	return seen
}

// byNumber reads the digits that an entry begins with, as strtoul does.
func byNumber(devices []topology.Device, entry string) (Seen, bool) {
	entry = strings.TrimPrefix(entry, "+")
	n := len(entry) - len(strings.TrimLeft(entry, "0123456789"))
	number, err := strconv.Atoi(entry[:n])
	return Seen{Position: number}, err == nil && number < len(devices)
}

func byUUID(devices []topology.Device, entry string) (Seen, bool) {
	if !strings.HasPrefix(entry, "GPU-") {
		return Seen{}, false
	}
	var found []Seen
	for i, d := range devices {
		if strings.HasPrefix(d.UUID, entry) {
			found = append(found, Seen{Position: i})
		}
	}
	return only(found)
}

// byPart reads "MIG-<uuid>", and "MIG-GPU-<uuid of the GPU>/<instance>/<instance>" of drivers before 470.
func byPart(devices []topology.Device, entry string) (Seen, bool) {
	var found []Seen
	for i, d := range devices {
		for _, part := range d.MIG {
			if strings.HasPrefix(entry, "MIG-") && strings.HasPrefix(part, entry) {
				found = append(found, Seen{Position: i, MIG: part})
			}
		}
	}
	return only(found)
}

func only(found []Seen) (Seen, bool) {
	if len(found) != 1 {
		return Seen{}, false
	}
	return found[0], true
}

// noteVisible notes which GPUs programs see, if that is not all.
func noteVisible(g topology.Graph, getenv func(string) (string, bool)) topology.Graph {
	if getenv == nil {
		return g
	}
	value, set := getenv(visibleVariable)
	if !set {
		return g
	}
	seen := Visible(g.Devices, value)
	names := lo.Map(seen, func(s Seen, _ int) string {
		name := fmt.Sprintf("GPU%d", g.Devices[s.Position].Index)
		if s.MIG != "" {
			return name + " (" + s.MIG + ")"
		}
		return name
	})
	what := "no GPU"
	if len(names) > 0 {
		what = strings.Join(names, ", ") + ", in this order"
	}
	note := fmt.Sprintf("%s=%s: CUDA programs see %s", visibleVariable, value, what)
	if order, _ := getenv("CUDA_DEVICE_ORDER"); order != "PCI_BUS_ID" && differ(g.Devices) {
		note += ". GPUs differ, so that numbers may mean others: set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name UUIDs"
	}
	g.Notes = append(g.Notes, note)
	return g
}

// differ reports whether CUDA's own order, the fastest GPU first, may not be that of the bus ids.
func differ(devices []topology.Device) bool {
	return slices.ContainsFunc(devices, func(d topology.Device) bool { return d.Name != devices[0].Name })
}
