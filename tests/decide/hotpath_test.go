package decide

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/harness"
	"github.com/weir-project/weir/tests/require"
)

// TestDecidedCallsAllocateNothing counts allocations in real ranks.
func TestDecidedCallsAllocateNothing(t *testing.T) {
	out, err := harness.Weir(t, harness.RunFolder(t), nil, "run", "-q", "-n", "2", "--", "calls", "-calls", "20000").CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%s", err, out)
	}
	counts := regexp.MustCompile(`20000 calls, [\d.]+ µs each, (\d+) allocations`).FindAllStringSubmatch(string(out), -1)
	if len(counts) != 2 {
		t.Fatalf("output of two ranks:\n%s", out)
	}
	for _, c := range counts {
		if n, _ := strconv.Atoi(c[1]); n > 20 { // the process's other goroutines; a call that allocated would make 20000
			t.Errorf("%d allocations in 20000 calls", n)
		}
	}
}

// TestDecidedCallsMakeNoSystemCall counts, with strace, the system calls of rank 0's process: ten times the calls, no more
// of them. What Go's runtime does by the clock is not the calls': its monitor sleeps and sends signals to threads that run
// for long. Another process on the same cores makes a rank wait and give its own core away, so the test tries again.
func TestDecidedCallsMakeNoSystemCall(t *testing.T) {
	require.Long(t)
	require.Tool(t, "strace")
	if runtime.NumCPU() < 2 {
		require.Missing(t, "cores", "two ranks need two cores")
	}
	for attempt := range 8 {
		few, many := systemCalls(t, 20_000), systemCalls(t, 200_000)
		t.Logf("attempt %d: %d system calls with 20000 all-reduces, %d with 200000", attempt, few, many)
		if many <= few+100 {
			return
		}
	}
	t.Error("the number of system calls grows with the number of all-reduces")
}

// byTheClock are the calls that Go's runtime makes because time has passed.
var byTheClock = []string{"nanosleep", "tgkill", "getpid", "rt_sigreturn", "futex", "epoll_pwait", "madvise", "---"}

func systemCalls(t *testing.T, calls int) int {
	t.Helper()
	trace := t.TempDir()
	command := fmt.Sprintf("exec strace -ff -qq -o %s/$WEIR_RANK calls -calls %d", trace, calls)
	out, err := harness.Weir(t, harness.RunFolder(t), nil, "run", "-q", "-n", "2", "--", "sh", "-c", command).CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%s", err, out)
	}
	threads, err := filepath.Glob(filepath.Join(trace, "0.*"))
	if err != nil || len(threads) == 0 {
		t.Fatalf("no trace of rank 0: %v", err)
	}
	n := 0
	for _, thread := range threads {
		lines, err := os.ReadFile(thread)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(lines)) {
			if !slices.ContainsFunc(byTheClock, func(name string) bool { return strings.HasPrefix(line, name) }) {
				n++
			}
		}
	}
	return n
}

// BenchmarkAllReduce is a decided call of two ranks in one process, 8 bytes: the table look-up, the board, the schedule.
func BenchmarkAllReduce(b *testing.B) {
	if runtime.NumCPU() < 2 {
		b.Skip("two ranks need two cores")
	}
	j := harness.StartAgent(b, 2, nil, harness.Candidate("flat", &harness.Fake{}))
	errs := j.Each(b, 2, func(s *rank.Session) error {
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
	harness.NoErrors(b, errs)
}
