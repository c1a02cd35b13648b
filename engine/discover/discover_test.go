package discover

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/topology"
)

// files makes a file system of names and contents.
func files(contents map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for name, c := range contents {
		m[name] = &fstest.MapFile{Data: []byte(c + "\n")}
	}
	return m
}

func pci(busID, vendor, class, device, numa, cpus string) map[string]string {
	dir := "bus/pci/devices/" + busID + "/"
	return map[string]string{
		dir + "vendor": vendor, dir + "class": class, dir + "device": device, dir + "numa_node": numa, dir + "local_cpulist": cpus,
	}
}

func merge(all ...map[string]string) map[string]string {
	m := map[string]string{}
	for _, x := range all {
		maps.Copy(m, x)
	}
	return m
}

// machine is a host of 64 CPUs on two nodes, of which the process may use 48; the kernel allows CPUs that are not there.
var (
	sysHost = merge(map[string]string{
		"devices/system/cpu/online":             "0-63",
		"devices/system/node/node0/cpulist":     "0-31",
		"devices/system/node/node1/cpulist":     "32-63",
		"devices/system/node/online":            "0-1",
		"devices/system/node/has_normal_memory": "0-1",
	}, pci("0000:00:00.0", "0x8086", "0x060000", "0x09a2", "0", "0-31"))
	procHost = map[string]string{
		"cpuinfo":     "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) 8480+\nprocessor\t: 1\nmodel name\t: other",
		"self/status": "Name:\tweir\nCpus_allowed:\tffff\nCpus_allowed_list:\t16-255\nMems_allowed_list:\t0-1",
		"self/cgroup": "0::/user.slice/weir",
	}
	host = topology.Host{CPU: "Intel(R) Xeon(R) 8480+", Cores: 48, NUMANodes: 2}
)

func describe(t *testing.T, g topology.Graph) string {
	t.Helper()
	var b strings.Builder
	if err := Describe(&b, g); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func check(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got)\n%s", what, diff)
	}
}

func TestNoGPU(t *testing.T) {
	g := Read(files(sysHost), files(procHost))
	check(t, "graph", topology.Graph{Host: host, Devices: []topology.Device{}, Links: [][]topology.Link{}, Complete: topology.Yes}, g)
	check(t, "text", "host: Intel(R) Xeon(R) 8480+, 48 cores, 2 NUMA nodes\nGPUs: none found\n", describe(t, g))
}

func TestEightGPUsOnTwoNodes(t *testing.T) {
	sys, proc := merge(sysHost), merge(procHost)
	for i := range 8 {
		node := i / 4
		id := fmt.Sprintf("0000:%x7:00.0", i+1)
		maps.Copy(sys, pci(id, "0x10de", "0x030200", "0x2bb5", fmt.Sprint(node), fmt.Sprintf("%d-%d", 32*node, 32*node+31)))
		proc["driver/nvidia/gpus/"+id+"/information"] = fmt.Sprintf("Model: \t\t NVIDIA RTX PRO 6000\nIRQ:   \t\t 44\nGPU UUID: \t GPU-%d", i)
	}
	maps.Copy(sys, pci("0000:f0:00.0", "0x10de", "0x068000", "0x22a3", "0", "0-31")) // NVSwitch
	maps.Copy(sys, pci("0000:17:00.1", "0x10de", "0x040300", "0x22e8", "0", "0-31")) // the audio function of a GPU
	g := Read(files(sys), files(proc))
	if len(g.Devices) != 8 || len(g.Links) != 8 {
		t.Fatalf("found %d GPUs with %d rows of links, want 8", len(g.Devices), len(g.Links))
	}
	check(t, "GPU 5", topology.Device{
		Index: 5, UUID: "GPU-5", PCIBusID: "0000:67:00.0", Name: "NVIDIA RTX PRO 6000", Vendor: "nvidia", NUMA: "1", CPUAffinity: "32-63",
	}, g.Devices[5])
	if got := topology.FullNVLink(g.Links); got != topology.NotKnown {
		t.Errorf("full NVLink is %s; sysfs cannot tell", got)
	}
	if g.Complete != topology.Yes || g.P2P != topology.P2PUnknown || g.Multicast != topology.NotKnown {
		t.Errorf("complete %s, P2P %s, multicast %s; want yes, unknown, unknown", g.Complete, g.P2P, g.Multicast)
	}
	check(t, "text", `host: Intel(R) Xeon(R) 8480+, 48 cores, 2 NUMA nodes
GPUs: 8
GPU0  0000:17:00.0  NUMA node 0  NVIDIA RTX PRO 6000
GPU1  0000:27:00.0  NUMA node 0  NVIDIA RTX PRO 6000
GPU2  0000:37:00.0  NUMA node 0  NVIDIA RTX PRO 6000
GPU3  0000:47:00.0  NUMA node 0  NVIDIA RTX PRO 6000
GPU4  0000:57:00.0  NUMA node 1  NVIDIA RTX PRO 6000
GPU5  0000:67:00.0  NUMA node 1  NVIDIA RTX PRO 6000
GPU6  0000:77:00.0  NUMA node 1  NVIDIA RTX PRO 6000
GPU7  0000:87:00.0  NUMA node 1  NVIDIA RTX PRO 6000
links between GPUs: unknown
note: GPUs were found on the PCI bus; whether this process may use them was not probed
note: NVLink, peer-to-peer access and compute capability can only be read through the driver (NVML); not probed
`, describe(t, g))
}

func TestOtherGPUs(t *testing.T) {
	sys := merge(sysHost,
		pci("0000:03:00.0", "0x10de", "0x030000", "0x2684", "-1", "0-63"), // no driver, no NUMA node
		pci("0000:05:00.0", "0x1002", "0x120000", "0x74a1", "1", "32-63"),
		map[string]string{"bus/pci/devices/0000:05:00.0/product_name": "AMD Instinct MI300X"},
		pci("0000:06:00.0", "0x1a03", "0x030000", "0x2000", "0", "0-31"), // a server's own VGA
		pci("0000:07:00.0", "0x10de", "0x030200", "0x2330", "0", "0-31"),
	)
	proc := merge(procHost, map[string]string{"driver/nvidia/gpus/0000:07:00.0/information": "Model: NVIDIA H100\nGPU UUID: GPU-????????-????"})
	check(t, "devices", []topology.Device{
		{Index: 0, PCIBusID: "0000:03:00.0", Name: "NVIDIA GPU 2684", Vendor: "nvidia", CPUAffinity: "0-63"},
		{Index: 1, PCIBusID: "0000:05:00.0", Name: "AMD Instinct MI300X", Vendor: "amd", NUMA: "1", CPUAffinity: "32-63"},
		{Index: 2, PCIBusID: "0000:07:00.0", Name: "NVIDIA H100", Vendor: "nvidia", NUMA: "0", CPUAffinity: "0-31"},
	}, Read(files(sys), files(proc)).Devices)
}

// What cannot be read must not look as if it were not there.
func TestNothingReadable(t *testing.T) {
	g := Read(fstest.MapFS{}, fstest.MapFS{})
	check(t, "graph", topology.Graph{Notes: []string{
		"cores: unknown: /proc/self/status does not show which this process may use",
		"NUMA nodes: unknown: read /sys/devices/system/node: file does not exist",
		"GPUs: unknown: read /sys/bus/pci/devices: file does not exist",
	}}, g)
	text := describe(t, g)
	if !strings.HasPrefix(text, "GPUs: unknown\n") || strings.Contains(text, "none") {
		t.Errorf("text is %q", text)
	}
}

func TestUnreadablePCIDevice(t *testing.T) {
	for name, change := range map[string]map[string]string{
		"empty vendor":   {"bus/pci/devices/0000:00:00.0/vendor": ""},
		"binary class":   {"bus/pci/devices/0000:00:00.0/class": "\x00\xff"},
		"huge vendor":    {"bus/pci/devices/0000:00:00.0/vendor": "0x" + strings.Repeat("f", 1000)},
		"negative":       {"bus/pci/devices/0000:00:00.0/class": "-1"},
		"nothing at all": {"bus/pci/devices/0000:01:00.0/uevent": ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := Read(files(merge(sysHost, change)), files(procHost))
			if g.Complete != topology.NotKnown || len(g.Notes) != 1 || !strings.Contains(g.Notes[0], "may be missing") {
				t.Errorf("complete %s, notes %q", g.Complete, g.Notes)
			}
			if text := describe(t, g); !strings.Contains(text, "GPUs: unknown\n") {
				t.Errorf("text is %q", text)
			}
		})
	}
}

func TestCores(t *testing.T) {
	for name, c := range map[string]struct {
		allowed, online string
		want            int
	}{
		"one":               {"3", "0-7", 1},
		"list":              {"0-2,5,7", "0-7", 5},
		"offline":           {"0-255", "0-3", 4},
		"online not known":  {"0-3", "", 4},
		"empty":             {"", "0-3", 0},
		"not a list":        {"0-3,x", "0-3", 0},
		"backwards":         {"3-0", "0-3", 0},
		"absurd":            {"0-99999999999", "0-3", 0},
		"absurdly repeated": {strings.Repeat("0-65535,", 1000) + "1", "0-3", 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := reader{
				sysfs:  files(map[string]string{"devices/system/cpu/online": c.online}),
				procfs: files(map[string]string{"self/status": "Cpus_allowed_list:\t" + c.allowed}),
			}
			if got := r.cores(); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

func TestQuota(t *testing.T) {
	for name, c := range map[string]struct {
		cgroup string
		sys    map[string]string
		want   string // in the notes; "" for no quota
	}{
		"none":                  {"0::/a", map[string]string{"fs/cgroup/a/cpu.max": "max 100000"}, ""},
		"version 2":             {"0::/a/b", map[string]string{"fs/cgroup/a/b/cpu.max": "150000 100000"}, "1.5 cores"},
		"of a parent":           {"0::/a/b", map[string]string{"fs/cgroup/a/cpu.max": "200000 100000", "fs/cgroup/a/b/cpu.max": "400000 100000"}, "2 cores"},
		"of a container":        {"0::/../../docker/x", map[string]string{"fs/cgroup/cpu.max": "300000 100000"}, "3 cores"},
		"version 1":             {"5:devices:/\n3:cpu,cpuacct:/a", map[string]string{"fs/cgroup/cpu/a/cpu.cfs_quota_us": "50000", "fs/cgroup/cpu/a/cpu.cfs_period_us": "100000"}, "0.5 cores"},
		"no limit in version 1": {"3:cpu:/", map[string]string{"fs/cgroup/cpu/cpu.cfs_quota_us": "-1", "fs/cgroup/cpu/cpu.cfs_period_us": "100000"}, ""},
		"not version 1's cpu":   {"3:cpuset:/", map[string]string{"fs/cgroup/cpu/cpu.cfs_quota_us": "100000", "fs/cgroup/cpu/cpu.cfs_period_us": "100000"}, ""},
		"nonsense":              {"what\n0::/a", map[string]string{"fs/cgroup/a/cpu.max": "many few"}, ""},
		"period of zero":        {"0::/", map[string]string{"fs/cgroup/cpu.max": "100 0"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := Read(files(merge(sysHost, c.sys)), files(merge(procHost, map[string]string{"self/cgroup": c.cgroup})))
			got := strings.Join(g.Notes, "\n")
			if c.want == "" && got != "" || c.want != "" && got != "a cgroup limits this process to the time of "+c.want {
				t.Errorf("notes are %q, want the time of %q", got, c.want)
			}
		})
	}
}

func TestDescribeLinks(t *testing.T) {
	g := topology.Uniform(3, topology.Link{Class: topology.NVLink, Count: 18}, func(i int) topology.Device {
		return topology.Device{Index: i, Name: "H100", Capability: "9.0", NUMA: "0"}
	})
	g.Links[0][2] = topology.Link{}
	check(t, "text", `GPUs: 3
      GPU0  GPU1  GPU2
GPU0  -     NV18  unknown  NUMA node 0  compute 9.0  H100
GPU1  NV18  -     NV18     NUMA node 0  compute 9.0  H100
GPU2  NV18  NV18  -        NUMA node 0  compute 9.0  H100
`, describe(t, g))
}

// The machine that runs the test, by real files and symbolic links.
func TestLive(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("sysfs and procfs are Linux's")
	}
	g := Live()
	if g.Host.Cores != runtime.NumCPU() {
		t.Errorf("found %d cores, the Go runtime %d", g.Host.Cores, runtime.NumCPU())
	}
	entries, err := os.ReadDir("/sys/bus/pci/devices")
	if known := g.Complete == topology.Yes; known != (err == nil) {
		t.Errorf("GPUs known: %v, reading the PCI bus (%d devices): %v", known, len(entries), err)
	}
	t.Log("\n" + describe(t, g))
}
