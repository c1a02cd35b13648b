package nvml_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/sdk/native/dl"
	"github.com/weir-project/weir/sdk/native/nvml"
	"github.com/weir-project/weir/sdk/native/nvml/nvmltest"
	"github.com/weir-project/weir/tests/require"
)

func open(t *testing.T, source string) (*nvml.Library, []nvml.GPU) {
	t.Helper()
	l, err := nvml.Open(require.Library(t, nvml.LibraryName, source))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := l.Init(); err != nil {
		t.Fatal(err)
	}
	gpus, err := l.GPUs()
	if err != nil || len(gpus) != 4 {
		t.Fatalf("GPUs %v, %v", gpus, err)
	}
	return l, gpus
}

func TestGPUs(t *testing.T) {
	l, gpus := open(t, nvmltest.Source("0", "0"))
	if v, err := l.DriverVersion(); err != nil || v != "570.86.10" {
		t.Errorf("driver %q, %v", v, err)
	}
	d, err := l.Describe(gpus[2])
	want := topology.Device{UUID: "GPU-00000002-0000-0000-0000-000000000000", PCIBusID: "0000:97:00.0", Name: "NVIDIA Test 1", Vendor: "nvidia", Capability: "9.1"}
	if diff := cmp.Diff(want, d); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if c, err := l.PathOf(gpus[0], gpus[2]); c != topology.SYS || err != nil {
		t.Errorf("path %s, %v", c, err)
	}
	if c, err := l.PathOf(gpus[2], gpus[3]); c != topology.PXB || err != nil {
		t.Errorf("path %s, %v", c, err)
	}
	p, err := l.Peer(gpus[0], gpus[2])
	refused := topology.StatusCNS
	if diff := cmp.Diff(topology.Peer{Read: refused, Write: refused, NVLink: refused, PCI: refused}, p); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	links, err := l.NVLinks(gpus[0])
	if len(links) != 4 || links[3] != (nvml.Link{BusID: "0000:18:00.0"}) || err != nil {
		t.Errorf("NVLinks %v, %v", links, err)
	}
	links, err = l.NVLinks(gpus[3])
	if len(links) != 3 || links[0] != (nvml.Link{BusID: "0000:f0:00.0", Switch: true}) || err != nil {
		t.Errorf("NVLinks %v, %v", links, err)
	}
	if parts, divided := l.Parts(gpus[3]); !divided || len(parts) != 2 || parts[1] != "MIG-00000001-0000-0000-0000-000000000000" {
		t.Errorf("parts %v, %v", parts, divided)
	}
	if parts, divided := l.Parts(gpus[0]); divided || parts != nil {
		t.Errorf("parts of a whole GPU %v, %v", parts, divided)
	}
}

// TestOldLibrary lacks what came after the first versions.
func TestOldLibrary(t *testing.T) {
	source := nvmltest.Source("0", "0")
	for _, name := range []string{"TopologyCommonAncestor", "P2PStatus", "NvLinkState", "MigMode", "CudaComputeCapability", "GetName", "SystemGetDriverVersion"} {
		source = strings.ReplaceAll(source, name, name+"Later")
	}
	l, gpus := open(t, source)
	if d, err := l.Describe(gpus[0]); err != nil || d.UUID == "" || d.PCIBusID != "0000:17:00.0" || d.Capability != "" || d.Name != "" {
		t.Errorf("%+v, %v", d, err)
	}
	var missing *dl.SymbolError
	if _, err := l.PathOf(gpus[0], gpus[1]); !errors.As(err, &missing) {
		t.Errorf("path: %v", err)
	}
	if _, err := l.Peer(gpus[0], gpus[1]); !errors.As(err, &missing) {
		t.Errorf("peer: %v", err)
	}
	if _, err := l.NVLinks(gpus[0]); !errors.As(err, &missing) {
		t.Errorf("NVLinks: %v", err)
	}
	if _, err := l.DriverVersion(); !errors.As(err, &missing) {
		t.Errorf("version: %v", err)
	}
	if _, divided := l.Parts(gpus[3]); divided {
		t.Error("divided")
	}
}

func TestFailures(t *testing.T) {
	l, err := nvml.Open(require.Library(t, nvml.LibraryName, nvmltest.Source("0", "9")))
	if err != nil {
		t.Fatal(err)
	}
	var failed *nvml.Error
	if err := l.Init(); !errors.As(err, &failed) || failed.Code != nvml.DriverNotLoaded || err.Error() != "nvmlInit_v2: Driver Not Loaded (9)" {
		t.Errorf("got %v", err)
	}
	var notFound *dl.NotFoundError
	if _, err := nvml.Open("/nowhere/libnvidia-ml.so.1"); !errors.As(err, &notFound) {
		t.Errorf("an absent library gives %v", err)
	}
	var missing *dl.SymbolError
	if _, err := nvml.Open(require.Library(t, nvml.LibraryName, "int nvmlInit_v2(void) { return 0; }")); !errors.As(err, &missing) {
		t.Errorf("a library without functions gives %v", err)
	}
}
