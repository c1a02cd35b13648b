package dropin

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
	"github.com/weir-project/weir/tests/harness"
)

// costProgram is the program that measures on GPUs, as it is built for them.
func costProgram(t testing.TB) string {
	t.Helper()
	harness.FakeLibraries(t) // needs cc as well
	ranks := filepath.Join(t.TempDir(), "ranks")
	if out, err := exec.Command("testdata/build", ranks).CombinedOutput(); err != nil {
		t.Fatalf("build ranks: %s\n%s", err, out)
	}
	return ranks
}

// costs is what it prints: the nanoseconds of a call that Weir serves, what one that is passed on takes more than without the
// drop-in, and what the same call takes more than itself by another op.
var costs = regexp.MustCompile(`^sum: (\d+) [+-]\d+\nmax: \d+ ([+-]\d+)\ndirect sum: \d+ ([+-]\d+)\ndirect max: \d+ \+0\n$`)

// TestDropInCost has the program run to its end.
func TestDropInCost(t *testing.T) {
	j := ncclJob{ranks: 2, program: []string{costProgram(t), "cost"}, env: []string{"REAL=" + harness.FakeNCCL(t)}}
	if out, _ := j.underRun(t, dropIn(t)); !costs.MatchString(out) {
		t.Errorf("it prints\n%s", out)
	}
}

// TestDropInGroupCost has the program that compares group calls run to its end.
func TestDropInGroupCost(t *testing.T) {
	j := ncclJob{ranks: 2, program: []string{costProgram(t), "groups", "2"}, env: []string{"REAL=" + harness.FakeNCCL(t), "WEIR_NCCL_GROUP_SUMS=64", "SHARE=1"}}
	out, _ := j.underRun(t, dropIn(t))
	if lines := regexp.MustCompile(`(?m)^\d+ bytes, \d+ sums: Weir [\d.]+, NCCL [\d.]+$`).FindAllString(out, -1); len(lines) != 6 {
		t.Errorf("it prints\n%s", out)
	}
}

// BenchmarkDropInCalls has the program run in turns with the same calls from Go, where driver and library are fakes: what is
// left of the difference is Weir's. Medians of all runs.
func BenchmarkDropInCalls(b *testing.B) {
	program := filepath.Join(b.TempDir(), "gpu.test")
	if out, err := exec.Command("go", "test", "-c", "-o", program, "../gpu").CombinedOutput(); err != nil {
		b.Fatalf("build gpu.test: %s\n%s", err, out)
	}
	fromC := ncclJob{ranks: 2, program: []string{costProgram(b), "cost"}, env: []string{"REAL=" + harness.FakeNCCL(b)}}
	fromGo := ncclJob{ranks: 2, program: []string{"env", "WEIR_GPU_SCENARIO=api", program}}
	figures := map[string][]float64{}
	for range b.N {
		out, _ := fromC.underRun(b, dropIn(b))
		c := costs.FindStringSubmatch(out)
		out, _ = fromGo.underRun(b, "")
		g := regexp.MustCompile(`from Go: (\d+)`).FindStringSubmatch(out)
		if c == nil || g == nil {
			b.Fatalf("no figures: %v, %v\n%s", c, g, out)
		}
		served, direct := number(b, c[1]), number(b, g[1])
		for unit, ns := range map[string]float64{"served-ns": served, "Go-ns": direct, "served-Go-ns": served - direct, "passed-on-ns": number(b, c[2]), "noise-ns": number(b, c[3])} {
			figures[unit] = append(figures[unit], ns)
		}
	}
	for unit, all := range figures {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], unit)
	}
}

func number(b *testing.B, text string) float64 {
	b.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// BenchmarkDropIn measures what the drop-in adds to a call: one that it passes on to a library that does nothing, and one that it
// gives to a Weir that does nothing (testdata/idle.c).
func BenchmarkDropIn(b *testing.B) {
	ranks, idle := linked(b, "ranks.c"), fakegpu.NCCL(b, "-DIDLE")
	weir := filepath.Join(b.TempDir(), "libweir.so")
	if out, err := exec.Command("cc", "-O2", "-shared", "-fPIC", "-I../sdk/cabi", "-o", weir, "testdata/idle.c").CombinedOutput(); err != nil {
		b.Fatalf("cc: %s\n%s", err, out)
	}
	folder := harness.RunFolder(b)
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
				env := append(j.environ(b, ""), "LD_LIBRARY_PATH="+filepath.Dir(idle)+":"+harness.FakeLibraries(b)) // with a meeting place of its own
				peer := j.command(b, folder, append(slices.Clone(env), "NRANK=1"))
				if err := peer.Start(); err != nil {
					b.Fatal(err)
				}
				out, _ := outputs(b, j.command(b, folder, append(slices.Clone(env), "NRANK=0")))
				_ = peer.Wait()
				b.ReportMetric(number(b, strings.TrimSuffix(out, " ns\n")), "ns/call")
			}
		})
	}
}
