package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/require"
)

// TestDecidedCallsAllocateNothing counts allocations in real ranks.
func TestDecidedCallsAllocateNothing(t *testing.T) {
	out, err := weir(t, runFolder(t), nil, "run", "-q", "-n", "2", "--", "calls", "-calls", "100000").CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%s", err, out)
	}
	counts := regexp.MustCompile(`100000 calls, [\d.]+ µs each, (\d+) allocations`).FindAllStringSubmatch(string(out), -1)
	if len(counts) != 2 {
		t.Fatalf("output of two ranks:\n%s", out)
	}
	for _, c := range counts {
		if n, _ := strconv.Atoi(c[1]); n > 20 { // the process's other goroutines; a call that allocated would make 100000
			t.Errorf("%d allocations in 100000 calls", n)
		}
	}
}

// TestDecidedCallsMakeNoSystemCall counts, with strace, the system calls of the thread that all-reduces: ten times the
// calls, no more of them. What Go's scheduler does to a thread that runs for long (a signal every ten milliseconds) is
// not the call's.
func TestDecidedCallsMakeNoSystemCall(t *testing.T) {
	require.Tool(t, "strace")
	if runtime.NumCPU() < 2 {
		t.Skip("two ranks need two cores")
	}
	few, many := systemCalls(t, 100_000), systemCalls(t, 1_000_000)
	t.Logf("system calls of the calling thread: %d with 10⁵ calls, %d with 10⁶", few, many)
	// Another process may take a core away; a rank that then waits for more than milliseconds gives its own away.
	if many > few+1000 {
		t.Errorf("%d system calls with 10⁵ all-reduces, %d with 10⁶", few, many)
	}
}

func systemCalls(t *testing.T, calls int) int {
	t.Helper()
	trace := t.TempDir()
	command := fmt.Sprintf("exec strace -ff -qq -o %s/$WEIR_RANK calls -calls %d", trace, calls)
	out, err := weir(t, runFolder(t), nil, "run", "-q", "-n", "2", "--", "sh", "-c", command).CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%s", err, out)
	}
	m := regexp.MustCompile(`rank 0: thread (\d+):`).FindStringSubmatch(string(out))
	if m == nil {
		t.Fatalf("output of rank 0:\n%s", out)
	}
	lines, err := os.ReadFile(filepath.Join(trace, "0."+m[1]))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(lines)) {
		if !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "rt_sigreturn") {
			n++
		}
	}
	return n
}

// BenchmarkAllReduce is a decided call of two ranks in one process, 8 bytes: the table look-up, the board, the schedule.
func BenchmarkAllReduce(b *testing.B) {
	if runtime.NumCPU() < 2 {
		b.Skip("two ranks need two cores")
	}
	j := startAgent(b, 2, nil, candidate("flat", &fake{}))
	errs := j.each(b, 2, func(s *rank.Session) error {
		src, dst := make([]float32, 2), make([]float32, 2)
		if err := rank.AllReduce(s.World(), dst, src, collective.Sum); err != nil {
			return err
		}
		if s.World().Rank() == 0 {
			b.ReportAllocs()
			b.ResetTimer()
		}
		for range b.N {
			if err := rank.AllReduce(s.World(), dst, src, collective.Sum); err != nil {
				return err
			}
		}
		return nil
	})
	noErrors(b, errs)
}
