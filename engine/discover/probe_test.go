package discover

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/sdk/native/nvml"
	"github.com/weir-project/weir/sdk/native/nvml/nvmltest"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/require"
)

// chains are where the four GPUs of the test's NVML hang, and a fifth that it does not have: two below one switch, two
// below different switches of another processor.
var chains = map[string]string{
	"0000:17:00.0": "pci0000:15/0000:15:01.0/0000:16:00.0/0000:16:01.0/0000:17:00.0",
	"0000:18:00.0": "pci0000:15/0000:15:01.0/0000:16:00.0/0000:16:02.0/0000:18:00.0",
	"0000:97:00.0": "pci0000:95/0000:95:01.0/0000:96:00.0/0000:96:01.0/0000:96:05.0/0000:97:00.0",
	"0000:98:00.0": "pci0000:95/0000:95:01.0/0000:96:00.0/0000:96:02.0/0000:96:06.0/0000:98:00.0",
	"0000:a8:00.0": "pci0000:a0/0000:a0:01.0/0000:a8:00.0",
}

// gpuHost is a sysfs of so many of those GPUs.
func gpuHost(busIDs ...string) fstest.MapFS {
	m := files(sysHost)
	for _, id := range busIDs {
		dir := "devices/" + chains[id]
		m[pciDevices+"/"+id] = &fstest.MapFile{Data: []byte("../../../" + dir), Mode: fs.ModeSymlink | 0o777}
		node := "0"
		if id > "0000:8" {
			node = "1"
		}
		for name, text := range map[string]string{"vendor": "0x10de", "class": "0x030200", "device": "0x2330", "numa_node": node, "local_cpulist": "0-3"} {
			m[dir+"/"+name] = &fstest.MapFile{Data: []byte(text + "\n")}
		}
	}
	return m
}

var four = []string{"0000:17:00.0", "0000:18:00.0", "0000:97:00.0", "0000:98:00.0"}

func rows(links [][]topology.Link) string {
	var b strings.Builder
	for a, row := range links {
		for c, l := range row {
			if a == c {
				b.WriteString(" X")
			} else {
				b.WriteString(" " + l.String())
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestProbeNVML(t *testing.T) {
	g := Probe(Machine{
		Sysfs: gpuHost(four...), Procfs: files(procHost), NVML: require.Library(t, nvml.LibraryName, nvmltest.Source("0", "0")),
		Getenv: func(name string) (string, bool) {
			return map[string]string{"CUDA_VISIBLE_DEVICES": "GPU-00000002,GPU-00000000"}[name], name == "CUDA_VISIBLE_DEVICES"
		},
	})
	if diff := cmp.Diff(" X NV4 SYS SYS\n NV4 X SYS SYS\n SYS SYS X NV3\n SYS SYS NV3 X\n", rows(g.Links)); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(" X PIX SYS SYS\n PIX X SYS SYS\n SYS SYS X PXB\n SYS SYS PXB X\n", rows(g.PCIe)); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	want := topology.Device{
		Index: 3, UUID: "GPU-00000003-0000-0000-0000-000000000000", PCIBusID: "0000:98:00.0", Name: "NVIDIA Test 1", Vendor: "nvidia", Capability: "9.1",
		NUMA: "1", CPUAffinity: "0-3", MIG: []string{"MIG-00000000-0000-0000-0000-000000000000", "MIG-00000001-0000-0000-0000-000000000000"},
	}
	if diff := cmp.Diff(want, g.Devices[3]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if g.Complete != topology.Yes || g.P2P != topology.P2PNone || g.Peers[0][1].NVLink != topology.StatusOK || g.Peers[0][1].Atomics != "" {
		t.Errorf("complete %s, P2P %s, peers %v", g.Complete, g.P2P, g.Peers)
	}
	notes := strings.Join(g.Notes, "\n")
	for _, n := range []string{"GPU3 is divided (MIG) into 2 parts", "CUDA_VISIBLE_DEVICES=GPU-00000002,GPU-00000000: CUDA programs see GPU2, GPU0, in this order. GPUs differ"} {
		if !strings.Contains(notes, n) {
			t.Errorf("no note %q in:\n%s", n, notes)
		}
	}
	if strings.Contains(notes, "not probed") {
		t.Errorf("notes still say that nothing was probed:\n%s", notes)
	}
}

// TestProbeContainer shows a GPU on the bus that the driver does not offer.
func TestProbeContainer(t *testing.T) {
	g := Probe(Machine{
		Sysfs: gpuHost(append(four, "0000:a8:00.0")...), Procfs: files(procHost), NVML: require.Library(t, nvml.LibraryName, nvmltest.Source("0", "0")),
	})
	if len(g.Devices) != 4 || g.Complete != topology.No || !strings.Contains(strings.Join(g.Notes, "\n"), "1 more NVIDIA GPU on the PCI bus") {
		t.Errorf("%d GPUs, complete %s, notes %q", len(g.Devices), g.Complete, g.Notes)
	}
}

// TestProbeOtherMaker has a GPU of another maker beside NVIDIA's.
func TestProbeOtherMaker(t *testing.T) {
	sysfs := gpuHost(append(four, "0000:a8:00.0")...)
	dir := "devices/" + chains["0000:a8:00.0"]
	sysfs[dir+"/vendor"] = &fstest.MapFile{Data: []byte("0x1002\n")}
	sysfs[dir+"/product_name"] = &fstest.MapFile{Data: []byte("Instinct MI210\n")}
	g := Probe(Machine{Sysfs: sysfs, Procfs: files(procHost), NVML: require.Library(t, nvml.LibraryName, nvmltest.Source("0", "0"))})
	if len(g.Devices) != 5 || g.Devices[4].Name != "Instinct MI210" || g.Devices[4].Index != 4 || g.Complete != topology.Yes {
		t.Errorf("devices %+v, complete %s", g.Devices, g.Complete)
	}
	if g.Links[0][1].String() != "NV4" || g.Links[0][4] != (topology.Link{}) || len(g.Links[4]) != 5 || topology.FullNVLink(g.Links) != topology.No {
		t.Errorf("links:\n%s", rows(g.Links))
	}
}

// TestProbeHangs asks a library whose first call never returns.
func TestProbeHangs(t *testing.T) {
	g := Probe(Machine{
		Sysfs: gpuHost(four...), Procfs: files(procHost), Patience: await.Lapse(50 * time.Millisecond),
		NVML: require.Library(t, nvml.LibraryName, nvmltest.Source("3600", "0")),
	})
	if rows(g.Links) != " X unknown unknown unknown\n unknown X unknown unknown\n unknown unknown X unknown\n unknown unknown unknown X\n" {
		t.Errorf("links:\n%s", rows(g.Links))
	}
	if rows(g.PCIe) != " X PIX SYS SYS\n PIX X SYS SYS\n SYS SYS X PXB\n SYS SYS PXB X\n" {
		t.Errorf("paths from sysfs:\n%s", rows(g.PCIe))
	}
	if notes := strings.Join(g.Notes, "\n"); !strings.Contains(notes, "NVML: no answer within 50ms: the driver may hang") {
		t.Errorf("notes:\n%s", notes)
	}
}

// script is an nvidia-smi that answers as one of two GPUs does.
const script = `#!/bin/sh
case "$*" in
"topo -m") printf '\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV4\t0-3\t0\nGPU1\tNV4\t X \t0-3\t0\n' ;;
"topo -p2p r") printf ' \tGPU0\tGPU1\t\n GPU0\tX\tOK\t\n GPU1\tOK\tX\t\n' ;;
--query-gpu=*) printf '0, 00000000:17:00.0, GPU-a, 8.6, NVIDIA GeForce RTX 3090\n1, 00000000:18:00.0, GPU-b, 8.6, NVIDIA GeForce RTX 3090\n' ;;
*) echo "unknown option $*"; exit 1 ;;
esac
`

func program(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "nvidia-smi")
	if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestProbeSMI(t *testing.T) {
	g := Probe(Machine{Sysfs: gpuHost(four[:2]...), Procfs: files(procHost), NVML: "/nowhere/libnvidia-ml.so.1", SMI: program(t, script)})
	want := []topology.Device{
		{Index: 0, UUID: "GPU-a", PCIBusID: "0000:17:00.0", Name: "NVIDIA GeForce RTX 3090", Vendor: "nvidia", Capability: "8.6", NUMA: "0", CPUAffinity: "0-3"},
		{Index: 1, UUID: "GPU-b", PCIBusID: "0000:18:00.0", Name: "NVIDIA GeForce RTX 3090", Vendor: "nvidia", Capability: "8.6", NUMA: "0", CPUAffinity: "0-3"},
	}
	if diff := cmp.Diff(want, g.Devices); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if rows(g.Links) != " X NV4\n NV4 X\n" || g.P2P != topology.P2PReported || rows(g.PCIe) != " X PIX\n PIX X\n" {
		t.Errorf("links:\n%s P2P %s, paths:\n%s", rows(g.Links), g.P2P, rows(g.PCIe))
	}
	notes := strings.Join(g.Notes, "\n")
	if !strings.Contains(notes, "NVML: /nowhere/libnvidia-ml.so.1: no such file") || !strings.Contains(notes, "links are from ") {
		t.Errorf("notes:\n%s", notes)
	}
}

func TestProbeSMIFailures(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"hangs":     {"#!/bin/sh\nexec sleep 3600\n", "topo -m: context deadline exceeded"},
		"fails":     {"#!/bin/sh\necho 'No devices were found'\nexit 6\n", "topo -m: exit status 6: No devices were found"},
		"nonsense":  {"#!/bin/sh\necho hello\n", "no topology found"},
		"no matrix": {strings.Replace(script, "GPU-b, 8.6", "GPU-b", 1), "does not list GPU 1"},
	} {
		t.Run(name, func(t *testing.T) {
			limit := await.For(5 * time.Second)
			if name == "hangs" {
				limit = await.Lapse(300 * time.Millisecond)
			}
			g := Probe(Machine{Sysfs: gpuHost(four[:2]...), Procfs: files(procHost), SMI: program(t, c.script), Patience: limit})
			notes := strings.Join(g.Notes, "\n")
			if len(g.Devices) != 2 || g.Links[0][1] != (topology.Link{}) || !strings.Contains(notes, c.want) && !strings.Contains(notes, "no answer within") {
				t.Errorf("%d GPUs, link %s, notes:\n%s", len(g.Devices), g.Links[0][1], notes)
			}
		})
	}
}

// cudaSource is a CUDA driver of two GPUs that reach each other.
const cudaSource = `
#include <stdio.h>
int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *v) { *v = 12080; return 0; }
int cuDeviceGetCount(int *n) { *n = 2; return 0; }
int cuDeviceGet(int *d, int i) { *d = i; return 0; }
int cuDeviceGetName(char *s, int n, int d) { snprintf(s, n, "NVIDIA Test"); return 0; }
int cuDeviceGetUuid_v2(unsigned char *u, int d) { for (int i = 0; i < 16; i++) u[i] = d; return 0; }
int cuDeviceGetPCIBusId(char *s, int n, int d) { snprintf(s, n, "0000:%x:00.0", 0x18 - d); return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { *v = 9; return 0; }
int cuDeviceGetP2PAttribute(int *v, int a, int from, int to) { *v = a == 2; return 0; }
int cuGetErrorName(int e, const char **s) { return 1; }
`

func TestProbeCUDA(t *testing.T) {
	g := Probe(Machine{Sysfs: gpuHost(four[:2]...), Procfs: files(procHost), CUDA: require.Library(t, "libcuda.so.1", cudaSource)})
	if len(g.Devices) != 2 || g.Devices[0].PCIBusID != "0000:18:00.0" || g.Devices[0].Capability != "9.9" || g.Devices[0].NUMA != "0" {
		t.Errorf("devices %+v", g.Devices)
	}
	if g.P2P != topology.P2PReported || g.Links[0][1] != (topology.Link{}) || g.Multicast != topology.NotKnown || rows(g.PCIe) != " X PIX\n PIX X\n" {
		t.Errorf("P2P %s, link %s, multicast %s, paths:\n%s", g.P2P, g.Links[0][1], g.Multicast, rows(g.PCIe))
	}
}

// TestProbeWithoutNVIDIA asks nobody.
func TestProbeWithoutNVIDIA(t *testing.T) {
	g := Probe(Machine{Sysfs: files(sysHost), Procfs: files(procHost), SMI: program(t, "#!/bin/sh\ntouch "+t.TempDir()+"/asked\n")})
	if g.Complete != topology.Yes || len(g.Devices) != 0 || len(g.Notes) != 0 {
		t.Errorf("complete %s, %d GPUs, notes %q", g.Complete, len(g.Devices), g.Notes)
	}
}

// TestProbeOffBus has GPUs that the PCI bus does not show.
func TestProbeOffBus(t *testing.T) {
	g := Probe(Machine{Sysfs: files(sysHost), Procfs: files(procHost), CUDA: require.Library(t, "libcuda.so.1", cudaSource)})
	if len(g.Devices) != 2 || g.P2P != topology.P2PReported || g.Complete != topology.Yes {
		t.Errorf("%d GPUs, P2P %s, complete %s", len(g.Devices), g.P2P, g.Complete)
	}
	g = Probe(Machine{Sysfs: files(sysHost), Procfs: files(procHost), CUDA: "/nowhere/libcuda.so.1"})
	if len(g.Devices) != 0 || len(g.Notes) != 0 {
		t.Errorf("without a driver: %d GPUs, notes %q", len(g.Devices), g.Notes)
	}
}

func TestPathClass(t *testing.T) {
	for _, c := range []struct {
		name, a, b, numaA, numaB string
		want                     topology.Class
	}{
		{"one switch", "pci0/r/u/d1/a", "pci0/r/u/d2/b", "", "", topology.PIX},
		{"two switches", "pci0/r/u/d1/v/e1/a", "pci0/r/u/d2/b", "", "", topology.PXB},
		{"one host bridge", "pci0/r1/a", "pci0/r2/b", "", "", topology.PHB},
		{"one NUMA node", "pci0/r1/a", "pci1/r2/b", "0", "0", topology.NODE},
		{"two NUMA nodes", "pci0/r1/a", "pci1/r2/b", "0", "1", topology.SYS},
		{"nodes not told", "pci0/r1/a", "pci1/r2/b", "", "", topology.Unknown},
		{"not told", "", "pci1/r2/b", "0", "1", topology.Unknown},
	} {
		split := func(s string) []string { return strings.FieldsFunc(s, func(r rune) bool { return r == '/' }) }
		if got := pathClass(split(c.a), split(c.b), c.numaA, c.numaB); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestSurroundings(t *testing.T) {
	g := topology.Uniform(2, topology.Link{Class: topology.PIX}, func(i int) topology.Device { return topology.Device{PCIBusID: four[i]} })
	space := make([]byte, 4096)
	space[0x100], space[0x103] = 0x01, 0x20 // another capability, the next at 0x200
	space[0x200], space[0x206] = 0x0d, 0x1f
	m := gpuHost(four[:2]...)
	// Real folders hold these; a bridge is a device of its own.
	m[pciDevices+"/0000:16:01.0/config"] = &fstest.MapFile{Data: space}
	m[pciDevices+"/0000:16:02.0/config"] = &fstest.MapFile{Data: make([]byte, 4096)}
	m["class/iommu/dmar0/x"] = &fstest.MapFile{}
	m["devices/"+chains[four[0]]+"/iommu_group"] = &fstest.MapFile{Data: []byte("/sys/kernel/iommu_groups/12"), Mode: fs.ModeSymlink | 0o777}
	m["kernel/iommu_groups/12/type"] = &fstest.MapFile{Data: []byte("DMA-FQ\n")}
	want := []string{
		"the IOMMU translates the addresses of GPUs (DMA-FQ): peer-to-peer access over PCIe may hang or corrupt data; boot with iommu=pt, or turn VT-d or AMD-Vi off",
		"ACS redirects peer-to-peer traffic to the processor at 0000:16:01.0 (1 bridge): it is slower, may hang or corrupt data; turn ACS off in the firmware or with setpci",
		"ACS of 2 bridges: unknown: only root may read it",
	}
	if diff := cmp.Diff(want, surroundings(m, g)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	m["kernel/iommu_groups/12/type"] = &fstest.MapFile{Data: []byte("identity\n")}
	if got := surroundings(m, g); len(got) != 2 {
		t.Errorf("an IOMMU that passes addresses through: %q", got)
	}
	nv := topology.Uniform(2, topology.Link{Class: topology.NVLink, Count: 4}, func(i int) topology.Device { return topology.Device{PCIBusID: four[i]} })
	if got := surroundings(m, nv); got != nil {
		t.Errorf("GPUs that need no PCIe: %q", got)
	}
	loop := make([]byte, 4096)
	loop[0x100], loop[0x103] = 1, 0x10 // the next is itself
	if redirects(loop) || redirects(make([]byte, 0x101)) {
		t.Error("a broken list is read as ACS")
	}
}

func TestVisible(t *testing.T) {
	devices := make([]topology.Device, 4)
	for i := range devices {
		devices[i] = topology.Device{Index: i, UUID: fmt.Sprintf("GPU-%d%d000000-0000-0000-0000-000000000000", i, i)}
	}
	devices[3].UUID = "GPU-0a000000-0000-0000-0000-000000000000"
	devices[2].MIG = []string{"MIG-aa000000-0000-0000-0000-000000000000", "MIG-GPU-22000000/1/0"}
	at := func(positions ...int) []Seen {
		var s []Seen
		for _, p := range positions {
			s = append(s, Seen{Position: p})
		}
		return s
	}
	for value, want := range map[string][]Seen{
		"":                         nil,
		"0,1,2,3":                  at(0, 1, 2, 3),
		"2,0":                      at(2, 0),
		" 1 , 3 ":                  at(1, 3),
		"1,-1,2":                   at(1),
		"0,9,1":                    at(0),
		"-1":                       nil,
		"NoDevFiles":               nil,
		"0,0":                      nil,
		"1,2,1":                    nil,
		"1x,2":                     at(1, 2),
		"+1":                       at(1),
		"0,,1":                     at(0),
		"0,GPU-11":                 at(0),
		"GPU-11":                   at(1),
		"GPU-22,GPU-11":            at(2, 1),
		"GPU-0":                    nil,
		"GPU-00,GPU-0a":            at(0, 3),
		"GPU-11,GPU-0":             at(1),
		"GPU-11,GPU-11":            nil,
		"GPU-11,2":                 at(1),
		"GPU-ff":                   nil,
		"MIG-aa":                   {{2, "MIG-aa000000-0000-0000-0000-000000000000"}},
		"MIG-GPU-22000000/1/0":     {{2, "MIG-GPU-22000000/1/0"}},
		"MIG-":                     nil,
		"MIG-aa,GPU-11":            {{2, "MIG-aa000000-0000-0000-0000-000000000000"}},
		"99999999999999999999":     nil,
		"2,99999999999999999999,1": at(2),
	} {
		if diff := cmp.Diff(want, Visible(devices, value)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", value, diff)
		}
	}
}

func TestVisibleNotes(t *testing.T) {
	g := topology.Uniform(2, topology.Link{}, func(i int) topology.Device { return topology.Device{Index: i, Name: "A"} })
	env := func(values map[string]string) func(string) (string, bool) {
		return func(name string) (string, bool) { v, ok := values[name]; return v, ok }
	}
	if n := noteVisible(g, env(nil)).Notes; n != nil {
		t.Errorf("not set: %q", n)
	}
	if n := noteVisible(g, env(map[string]string{"CUDA_VISIBLE_DEVICES": ""})).Notes; len(n) != 1 || !strings.HasSuffix(n[0], "CUDA programs see no GPU") {
		t.Errorf("empty: %q", n)
	}
	g.Devices[1].Name = "B"
	if n := noteVisible(g, env(map[string]string{"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})).Notes; len(n) != 1 || !strings.HasSuffix(n[0], "CUDA programs see GPU1, in this order") {
		t.Errorf("in the order of the bus: %q", n)
	}
}
