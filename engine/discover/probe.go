package discover

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/sdk/native/nvml"
)

// patience bounds the wait for a driver. The first call into one that is idle loads it, which takes seconds on a machine of
// many GPUs.
const patience = 15 * time.Second

// Machine is where Probe looks. The zero value of a library or program is not looked for.
type Machine struct {
	Sysfs, Procfs fs.FS
	NVML          string                           // library
	CUDA          string                           // library
	SMI           string                           // the program nvidia-smi
	Getenv        func(name string) (string, bool) // for CUDA_VISIBLE_DEVICES; nil for none
	Patience      time.Duration                    // for each of them; 0 means a quarter of a minute
}

// Live is the topology of this machine: what the kernel shows, and of NVIDIA's GPUs what their driver says. It may load
// the driver's libraries into the process but makes no CUDA context. It does not fail and ends within a minute, also
// when the driver hangs: what could not be probed is unknown, with a note.
func Live() topology.Graph {
	return Probe(Machine{
		Sysfs: os.DirFS("/sys"), Procfs: os.DirFS("/proc"),
		NVML: nvml.LibraryName, CUDA: cuda.LibraryName, SMI: "nvidia-smi", Getenv: os.LookupEnv,
	})
}

// Probe is the topology of a machine.
func Probe(m Machine) topology.Graph {
	m.Patience = cmp.Or(m.Patience, patience)
	g := Read(m.Sysfs, m.Procfs)
	known := slices.ContainsFunc(g.Devices, func(d topology.Device) bool { return isNVIDIA(m.Sysfs, d) })
	if !known && g.Complete == topology.Yes && !hidden(m.Sysfs) {
		return offBus(g, m)
	}
	for _, source := range []struct {
		name string
		of   string
		ask  func(name string, m Machine) (view, error)
	}{{"NVML", m.NVML, askNVML}, {"nvidia-smi", m.SMI, askSMI}, {"the CUDA driver", m.CUDA, askCUDA}} {
		if source.of == "" {
			continue
		}
		v, err := within(m.Patience, func() (view, error) { return source.ask(source.of, m) })
		if err == nil {
			g = combine(m.Sysfs, g, v)
			g.Notes = append(g.Notes, surroundings(m.Sysfs, g)...)
			if v.all {
				g = noteVisible(g, m.Getenv)
			}
			return g
		}
		if known {
			g.Notes = append(g.Notes, fmt.Sprintf("%s: %s", source.name, oneLine(err)))
		}
	}
	g.Notes = append(g.Notes, surroundings(m.Sysfs, g)...)
	return g
}

// offBus asks the CUDA driver, if there is one, for GPUs that are not on the PCI bus, as those of systems on a chip. There is
// nothing to be said if it has none.
func offBus(g topology.Graph, m Machine) topology.Graph {
	if m.CUDA == "" {
		return g
	}
	v, err := within(m.Patience, func() (view, error) { return askCUDA(m.CUDA, m) })
	if err != nil || len(v.devices) == 0 {
		return g
	}
	return combine(m.Sysfs, g, v)
}

func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// isNVIDIA reports whether a device on the PCI bus is NVIDIA's.
func isNVIDIA(sysfs fs.FS, d topology.Device) bool {
	vendor, err := strconv.ParseUint(line(sysfs, path.Join(pciDevices, d.PCIBusID, "vendor")), 0, 16)
	return err == nil && vendor == nvidia
}

// hidden reports whether the machine is a guest of Windows, which shows GPUs under its own name.
func hidden(sysfs fs.FS) bool {
	_, err := fs.Stat(sysfs, "class/misc/dxg")
	return err == nil
}

// within is what f returns, or an error if that takes too long. Nothing can end a call into a driver that hangs: it
// is left behind.
func within[T any](d time.Duration, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-timer.C:
		var none T
		return none, fmt.Errorf("no answer within %s: the driver may hang; look at `dmesg`", d)
	}
}

// view is what one source says of NVIDIA's GPUs.
type view struct {
	devices []topology.Device // Index is the number that the source gives
	links   [][]topology.Link
	pcie    [][]topology.Link
	peers   [][]topology.Peer
	all     bool // all GPUs that this process may use are in it, whatever CUDA_VISIBLE_DEVICES says
	notes   []string
}

// combine puts what the driver says over what the kernel shows, by bus id. GPUs that the driver does not offer are left
// out, with a note: no program can use them.
func combine(sysfs fs.FS, g topology.Graph, v view) topology.Graph {
	bus := lo.KeyBy(g.Devices, func(d topology.Device) string { return d.PCIBusID })
	position := map[string]int{}
	for i, d := range g.Devices {
		position[d.PCIBusID] = i
	}
	out := g
	out.Devices = slices.Clone(v.devices)
	out.Notes = slices.DeleteFunc(slices.Clone(g.Notes), func(n string) bool { return n == notProbed || n == notAsked })
	for i, d := range out.Devices {
		k := bus[d.PCIBusID]
		out.Devices[i].NUMA, out.Devices[i].CPUAffinity = cmp.Or(k.NUMA, d.NUMA), cmp.Or(k.CPUAffinity, d.CPUAffinity)
		if out.Devices[i].NUMA == "" && g.Host.NUMANodes == 1 {
			out.Devices[i].NUMA = "0" // the firmware does not say, and there is no other
		}
		delete(bus, d.PCIBusID)
	}
	out.Links, out.PCIe, out.Peers = v.links, v.pcie, v.peers
	if out.PCIe == nil && g.PCIe != nil {
		out.PCIe = matrixOf(len(out.Devices), func(a, b int) topology.Link {
			p, okP := position[out.Devices[a].PCIBusID]
			q, okQ := position[out.Devices[b].PCIBusID]
			if !okP || !okQ {
				return topology.Link{}
			}
			return g.PCIe[p][q]
		})
	}
	out = withOthers(sysfs, out, g, bus)
	if out.Peers != nil {
		out.P2P = topology.Access(out.Peers, len(out.Devices))
	}
	if topology.AnyNVLink(out.Links) == topology.No {
		out.Multicast = topology.No
	}
	out.Notes = append(out.Notes, v.notes...)
	return out
}

// withOthers adds the GPUs of other makers, and notes those of NVIDIA that the driver did not name.
func withOthers(sysfs fs.FS, out, g topology.Graph, left map[string]topology.Device) topology.Graph {
	unoffered := 0
	for _, d := range g.Devices {
		if _, ok := left[d.PCIBusID]; !ok {
			continue
		}
		if isNVIDIA(sysfs, d) {
			unoffered++
			continue
		}
		d.Index = len(out.Devices)
		out.Devices = append(out.Devices, d)
	}
	n := len(out.Devices)
	grow := func(m [][]topology.Link) [][]topology.Link {
		return matrixOf(n, func(a, b int) topology.Link {
			if a < len(m) && b < len(m[a]) {
				return m[a][b]
			}
			return topology.Link{}
		})
	}
	out.Links = grow(out.Links)
	if out.PCIe != nil {
		out.PCIe = grow(out.PCIe)
	}
	if out.Peers != nil {
		peers := out.Peers
		out.Peers = matrixOf(n, func(a, b int) topology.Peer {
			if a < len(peers) && b < len(peers[a]) {
				return peers[a][b]
			}
			return topology.Peer{}
		})
	}
	if unoffered > 0 {
		out.Complete = topology.No
		out.Notes = append(out.Notes, fmt.Sprintf("%s on the PCI bus that the driver does not offer to this process (a container, or a GPU that has failed: look at `dmesg`)", count(unoffered, "more NVIDIA GPU")))
	}
	return out
}

// matrixOf is a square matrix; the diagonal is left out.
func matrixOf[T any](n int, of func(a, b int) T) [][]T {
	m := make([][]T, n)
	for a := range m {
		m[a] = make([]T, n)
		for b := range n {
			if a != b {
				m[a][b] = of(a, b)
			}
		}
	}
	return m
}
