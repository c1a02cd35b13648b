package p2p_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/engine/p2p"
)

func TestCache(t *testing.T) {
	c := p2p.Cache{Dir: filepath.Join(t.TempDir(), "weir", "p2p")}
	devices := []topology.Device{{UUID: "GPU-b"}, {UUID: "GPU-a"}}
	state := p2p.StateOf("1.0", "580.1", "boot-1", devices)
	good := topology.Proof{From: "GPU-a", To: "GPU-b", Result: topology.P2PVerified}
	bad := topology.Proof{From: "GPU-b", To: "GPU-a", Result: topology.P2PFailed, Why: "nothing came"}
	if got := c.Load(state); got != nil {
		t.Errorf("before anything was kept: %v", got)
	}
	if err := c.Store(state, []topology.Proof{good}); err != nil {
		t.Fatal(err)
	}
	if err := c.Store(state, []topology.Proof{bad}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]topology.Proof{bad, good}, c.Load(state)); diff != "" {
		t.Error(diff)
	}
	mended := bad
	mended.Result, mended.Why = topology.P2PVerified, ""
	if err := c.Store(state, []topology.Proof{mended}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]topology.Proof{mended, good}, c.Load(state)); diff != "" {
		t.Errorf("a later proof does not take the place: %s", diff)
	}
	reversed := p2p.StateOf("1.0", "580.1", "boot-1", []topology.Device{devices[1], devices[0]})
	if len(c.Load(reversed)) != 2 {
		t.Error("the order of the devices is part of the state")
	}
	for what, other := range map[string]p2p.State{
		"Weir":      p2p.StateOf("1.1", "580.1", "boot-1", devices),
		"driver":    p2p.StateOf("1.0", "580.2", "boot-1", devices),
		"boot":      p2p.StateOf("1.0", "580.1", "boot-2", devices),
		"devices":   p2p.StateOf("1.0", "580.1", "boot-1", append(devices, topology.Device{UUID: "GPU-c"})),
		"no driver": p2p.StateOf("1.0", "", "boot-1", devices),
		"no boot":   p2p.StateOf("1.0", "580.1", "", devices),
		"unnamed":   p2p.StateOf("1.0", "580.1", "boot-1", []topology.Device{{UUID: "GPU-a"}, {}}),
	} {
		if got := c.Load(other); got != nil {
			t.Errorf("another %s: %v", what, got)
		}
	}
	files, _ := filepath.Glob(filepath.Join(c.Dir, "*"))
	if len(files) != 1 {
		t.Fatalf("files %v", files)
	}
	for _, text := range []string{"", "{", `{"proofs":[{"From":"GPU-a","To":"GPU-b","Result":"verified"}]}`} {
		if err := os.WriteFile(files[0], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := c.Load(state); got != nil {
			t.Errorf("from %q: %v", text, got)
		}
	}
	none := p2p.Cache{}
	if err := none.Store(state, []topology.Proof{good}); err != nil || none.Load(state) != nil {
		t.Errorf("without a folder: %v", err)
	}
}
