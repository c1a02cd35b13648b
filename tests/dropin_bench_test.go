package tests

import (
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-project/weir/tests/fakegpu"
)

// TestDropInCost has the program that measures on GPUs, as it is built for them, run to its end.
func TestDropInCost(t *testing.T) {
	fakeLibraries(t) // needs cc as well
	ranks := filepath.Join(t.TempDir(), "ranks")
	if out, err := exec.Command("testdata/dropin/build", ranks).CombinedOutput(); err != nil {
		t.Fatalf("build ranks: %s\n%s", err, out)
	}
	j := ncclJob{ranks: 2, program: []string{ranks, "cost"}, env: []string{"REAL=" + fakeNCCL(t)}}
	if out, _ := j.underRun(t, dropIn(t)); !regexp.MustCompile(`^sum: \d+ [+-]\d+\nmax: \d+ [+-]\d+\ndirect sum: \d+ [+-]\d+\ndirect max: \d+ \+0\n$`).MatchString(out) {
		t.Errorf("it prints\n%s", out)
	}
}

// BenchmarkDropIn measures what the drop-in adds to a call: one that it passes on to a library that does nothing, and one that it
// gives to a Weir that does nothing (testdata/dropin/idle.c).
func BenchmarkDropIn(b *testing.B) {
	ranks, idle := linked(b, "ranks.c"), fakegpu.NCCL(b, "-DIDLE")
	weir := filepath.Join(b.TempDir(), "libweir.so")
	if out, err := exec.Command("cc", "-O2", "-shared", "-fPIC", "-I../sdk/cabi", "-o", weir, "testdata/dropin/idle.c").CombinedOutput(); err != nil {
		b.Fatalf("cc: %s\n%s", err, out)
	}
	folder := runFolder(b)
	listener, err := net.Listen("unix", filepath.Join(folder, "agent.sock"))
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	for _, c := range []struct {
		name string
		env  []string
	}{
		{"without", nil},
		{"passed on", []string{"LD_PRELOAD=" + dropIn(b)}},
		{"served", []string{"LD_PRELOAD=" + dropIn(b), "WEIR_LIB=" + weir, "WEIR_AGENT_SOCKET=" + listener.Addr().String(), "WEIR_WORLD_SIZE=2"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			j := ncclJob{ranks: 2, program: []string{ranks, "loop"}, env: c.env}
			for range b.N {
				env := append(j.environ(b, ""), "LD_LIBRARY_PATH="+filepath.Dir(idle)+":"+fakeLibraries(b)) // with a meeting place of its own
				peer := j.command(b, folder, append(slices.Clone(env), "NRANK=1"))
				if err := peer.Start(); err != nil {
					b.Fatal(err)
				}
				out, _ := outputs(b, j.command(b, folder, append(slices.Clone(env), "NRANK=0")))
				_ = peer.Wait()
				ns, err := strconv.ParseFloat(strings.TrimSuffix(out, " ns\n"), 64)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(ns, "ns/call")
			}
		})
	}
}
