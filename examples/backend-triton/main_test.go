package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/backendtest"
)

func loaded(t *testing.T) *triton {
	t.Helper()
	b, err := load(built)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBackend holds the backend to the contract. Its kernels run where there is a GPU.
func TestBackend(t *testing.T) { backendtest.Run(t, loaded(t)) }

// TestBuilt holds that the PTX is what Triton made of kernel.py as it is now.
func TestBuilt(t *testing.T) {
	var said struct{ Kernel, PTX string }
	text, err := built.ReadFile("oneshot.json")
	if err == nil {
		err = json.Unmarshal(text, &said)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"kernel.py": said.Kernel, "oneshot.ptx": said.PTX} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(text)); got != want {
			t.Errorf("%s has sha256 %s, oneshot.json is of %s: run build.py", name, got, want)
		}
	}
}

// TestArguments holds that the PTX takes as many parameters as it is given.
func TestArguments(t *testing.T) {
	b := loaded(t)
	_, entry, found := strings.Cut(string(b.ptx), ".entry "+b.launch.Function+"(")
	entry, _, closed := strings.Cut(entry, ")")
	if !found || !closed {
		t.Fatalf("the PTX has no function %s", b.launch.Function)
	}
	var sizes []string
	for line := range strings.Lines(entry) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == ".param" {
			sizes = append(sizes, strings.TrimLeft(f[1], ".subf"))
		}
	}
	want := make([]string, len(b.launch.Arguments))
	for i, a := range b.launch.Arguments {
		want[i] = "64"
		if slices.Contains([]plan.Argument{plan.ArgRank, plan.ArgWorld, plan.ArgHash, plan.ArgID}, a) {
			want[i] = "32"
		}
	}
	if !slices.Equal(sizes, want) {
		t.Errorf("parameters of %v bits, arguments of %v", sizes, want)
	}
}
