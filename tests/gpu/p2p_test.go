package gpu

import (
	"os"
	"testing"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/engine/p2p"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/tests/require"
)

// p2pWorker is the scenario of a process that does one GPU's part in a proof of peer-to-peer access.
const p2pWorker = "p2p-worker"

func proveAmong(t *testing.T, devices []topology.Device) []p2p.Result {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	results := p2p.Verify(t.Context(), devices, p2p.Directions(len(devices)), p2p.Options{
		Command: []string{exe}, Environ: append(os.Environ(), envScenario+"="+p2pWorker),
	})
	t.Logf("%d directions took %s", len(results), time.Since(start).Round(time.Millisecond))
	return results
}

// TestPeerAccessOneGPU has two processes on one GPU write into each other's memory: the kernels and the sharing of memory work,
// whatever the links of a machine.
func TestPeerAccessOneGPU(t *testing.T) {
	devices(t)
	all := visible(t)
	for _, r := range proveAmong(t, []topology.Device{all[0], all[0]}) {
		if r.Found != topology.P2PVerified {
			t.Errorf("%+v", r)
		}
	}
}

// TestPeerAccess proves what the driver says of every two GPUs.
func TestPeerAccess(t *testing.T) {
	if n := devices(t); n < 2 {
		require.Missing(t, "gpus", "one GPU")
	}
	all := visible(t)
	d, err := cuda.Open()
	if err != nil {
		t.Fatal(err)
	}
	peers, err := d.Peers()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range proveAmong(t, all) {
		said := topology.PeerAt(peers, r.From, r.To).Access()
		t.Logf("%d to %d: driver %s, found %s %s", r.From, r.To, said, r.Found, r.Why)
		if want := lo.Ternary(said == topology.P2PReported, topology.P2PVerified, topology.P2PNone); r.Found != want {
			t.Errorf("%+v, want %s", r, want)
		}
	}
}

// visible are the GPUs that this process may use.
func visible(t *testing.T) []topology.Device {
	t.Helper()
	d, err := cuda.Open()
	if err != nil {
		t.Fatal(err)
	}
	all, err := d.Devices()
	if err != nil {
		t.Fatal(err)
	}
	return all
}
