package cuda_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/sdk/native/dl"
	"github.com/weir-project/weir/tests/require"
)

// driverSource is a driver of two GPUs whose cuInit returns a given code.
const driverSource = `
#include <string.h>
#include <stdio.h>
static int started;
int cuInit(unsigned flags) { started = %d == 0; return %d; }
int cuDriverGetVersion(int *v) { *v = 12080; return 0; }
int cuDeviceGetCount(int *n) { if (!started) return 3; *n = 2; return 0; }
int cuDeviceGet(int *d, int i) { *d = 70 + i; return 0; }
int cuDeviceGetName(char *s, int n, int d) { snprintf(s, n, "GPU of test %%d", d); return 0; }
int cuDeviceGetUuid_v2(unsigned char *u, int d) { for (int i = 0; i < 16; i++) u[i] = i + d; return 0; }
int cuDeviceGetPCIBusId(char *s, int n, int d) { snprintf(s, n, "0000:%%02x:00.0", d); return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { if (a != 75 && a != 76) return 1; *v = a == 75 ? 9 : d - 70; return 0; }
int cuGetErrorName(int e, const char **s) {
	if (e == 100) *s = "CUDA_ERROR_NO_DEVICE"; else if (e == 3) *s = "CUDA_ERROR_NOT_INITIALIZED"; else { *s = 0; return 1; }
	return 0;
}
`

func open(t *testing.T, initCode int) *cuda.Driver {
	t.Helper()
	d, err := cuda.Open(require.Library(t, cuda.LibraryName, fmt.Sprintf(driverSource, initCode, initCode)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestDevices(t *testing.T) {
	d := open(t, 0)
	if v, err := d.Version(); err != nil || v != "12.8" {
		t.Errorf("version %q, %v", v, err)
	}
	if _, err := d.Devices(); err == nil || err.Error() != "cuDeviceGetCount: CUDA_ERROR_NOT_INITIALIZED (3)" {
		t.Errorf("before Init: %v", err)
	}
	if err := d.Init(); err != nil {
		t.Fatal(err)
	}
	got, err := d.Devices()
	if err != nil {
		t.Fatal(err)
	}
	want := []topology.Device{
		{Index: 0, Vendor: "nvidia", Name: "GPU of test 70", Capability: "9.0", PCIBusID: "0000:46:00.0", UUID: "GPU-46474849-4a4b-4c4d-4e4f-505152535455"},
		{Index: 1, Vendor: "nvidia", Name: "GPU of test 71", Capability: "9.1", PCIBusID: "0000:47:00.0", UUID: "GPU-4748494a-4b4c-4d4e-4f50-515253545556"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestInitFailures(t *testing.T) {
	for code, want := range map[int]string{
		cuda.NoDevice: "cuInit: CUDA_ERROR_NO_DEVICE (100)",
		4711:          "cuInit: CUDA error 4711",
	} {
		err := open(t, code).Init()
		var failed *cuda.Error
		if !errors.As(err, &failed) || failed.Code != code || err.Error() != want {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestOpenFailures(t *testing.T) {
	var notFound *dl.NotFoundError
	if _, err := cuda.Open("/nowhere/libcuda.so.1"); !errors.As(err, &notFound) {
		t.Errorf("an absent driver gives %v", err)
	}
	broken := strings.ReplaceAll(driverSource, "cuDeviceGetPCIBusId", "other")
	var missing *dl.SymbolError
	_, err := cuda.Open(require.Library(t, cuda.LibraryName, fmt.Sprintf(broken, 0, 0)))
	if !errors.As(err, &missing) || missing.Symbol != "cuDeviceGetPCIBusId" {
		t.Errorf("a driver without a function gives %v", err)
	}
}

// TestOlderDriver has only the first form of cuDeviceGetUuid.
func TestOlderDriver(t *testing.T) {
	older := strings.ReplaceAll(driverSource, "cuDeviceGetUuid_v2", "cuDeviceGetUuid")
	d, err := cuda.Open(require.Library(t, cuda.LibraryName, fmt.Sprintf(older, 0, 0)))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Init(); err != nil {
		t.Fatal(err)
	}
	if devices, err := d.Devices(); err != nil || !strings.HasPrefix(devices[0].UUID, "GPU-4647") {
		t.Errorf("got %v, %v", devices, err)
	}
}

func TestPeers(t *testing.T) {
	const attribute = "int cuDeviceGetP2PAttribute(int *v, int a, int from, int to) { *v = a == 2 && from < to; return 0; }\n"
	d, err := cuda.Open(require.Library(t, cuda.LibraryName, fmt.Sprintf(driverSource, 0, 0)+attribute))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Init(); err != nil {
		t.Fatal(err)
	}
	want := [][]topology.Peer{{{}, {Any: topology.StatusOK}}, {{Any: topology.StatusNS}, {}}}
	if got, err := d.Peers(); err != nil || !cmp.Equal(want, got) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	var missing *dl.SymbolError
	without := open(t, 0)
	if err := without.Init(); err != nil {
		t.Fatal(err)
	}
	if _, err := without.Peers(); !errors.As(err, &missing) {
		t.Errorf("a driver without the function gives %v", err)
	}
}
