package p2p

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weir-project/weir/tests/require"
)

func TestRounds(t *testing.T) {
	flags, seeds := map[uint64]bool{}, map[uint64]bool{}
	first, second := rounds(1), rounds(2)
	for _, r := range slices.Concat(first, second) {
		if r.Flag>>32 != 0 || r.Flag == 0 || r.Flag == poison*0x01010101 {
			t.Errorf("flag %#x", r.Flag)
		}
		if r.Bytes > longest || r.Bytes%8 != 0 {
			t.Errorf("%d bytes", r.Bytes)
		}
		flags[r.Flag], seeds[r.Seed] = true, true
	}
	if n := len(first) + len(second); len(flags) != n || len(seeds) != n {
		t.Errorf("%d rounds have %d flags and %d seeds", n, len(flags), len(seeds))
	}
}

// TestFault has what a GPU saw and what its memory held afterwards told apart.
func TestFault(t *testing.T) {
	r := round{Bytes: 64, Seed: 3, Flag: 9}
	good := make([]byte, 64)
	fill(good, r.Seed, r.Flag)
	bad := slices.Clone(good)
	bad[17] ^= 1
	bad[40] ^= 1
	for name, c := range map[string]struct {
		missing, wrong uint32
		memory         []byte
		want           string
	}{
		"right":             {0, 0, good, ""},
		"wrong":             {0, 1, bad, "wrong data: 2 of 64 B, the first at offset 17, where "},
		"unseen":            {0, 0, bad, "wrong data: 2 of 64 B, the first at offset 17, where "},
		"late":              {0, 4, good, "data came after its flag: 4 words were wrong when the flag was there (a kernel's stores of 64 B)"},
		"no flag":           {8, 0, bytes.Repeat([]byte{poison}, 64), "the flag never came; 0 of 64 B had arrived (a kernel's stores of 64 B)"},
		"unseen by the GPU": {8, 0, good, "the flag never came to the waiting GPU, though the data did (a kernel's stores of 64 B)"},
	} {
		f := found{Missing: c.missing, Wrong: c.wrong}
		f.compare(r, c.memory)
		if got := f.fault(r); got != c.want && (c.want == "" || !bytes.HasPrefix([]byte(got), []byte(c.want))) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestKernelImage makes the PTX from its source again.
func TestKernelImage(t *testing.T) {
	clang := require.Tool(t, "clang++-19")
	out := filepath.Join(t.TempDir(), "p2p.ptx")
	text, err := exec.Command(clang, "-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", "--cuda-gpu-arch=sm_80",
		"-Xclang", "-target-feature", "-Xclang", "+ptx70", "-O2", "-S", "kernel/p2p.cu", "-o", out).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	made, err := os.ReadFile(out)
	if err != nil || !bytes.Equal(made, kernelImage) {
		t.Errorf("kernel/p2p.ptx is not what is made from kernel/p2p.cu (%v)", err)
	}
}
