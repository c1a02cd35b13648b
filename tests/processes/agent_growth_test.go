package processes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
)

// footprint is what a process holds.
type footprint struct {
	descriptors, threads, mappings int // mappings of shared memory of groups
	resident                       int // bytes
}

func footprintOf(t *testing.T, pid int) footprint {
	t.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	fds, err := os.ReadDir(filepath.Join(dir, "fd"))
	threads, err2 := os.ReadDir(filepath.Join(dir, "task"))
	maps, err3 := os.ReadFile(filepath.Join(dir, "maps"))
	statm, err4 := os.ReadFile(filepath.Join(dir, "statm"))
	if err := errors.Join(err, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(statm))[1])
	if err != nil {
		t.Fatal(err)
	}
	return footprint{len(fds), len(threads), strings.Count(string(maps), "memfd:weir-"), pages * os.Getpagesize()}
}

// settled is the least that processes hold within half a second: what ends, ends soon.
func settled(t *testing.T, pids []int) []footprint {
	t.Helper()
	least := lo.Map(pids, func(pid, _ int) footprint { return footprintOf(t, pid) })
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		for i, pid := range pids {
			now := footprintOf(t, pid)
			least[i] = footprint{
				min(least[i].descriptors, now.descriptors), min(least[i].threads, now.threads),
				min(least[i].mappings, now.mappings), min(least[i].resident, now.resident),
			}
		}
	}
	return least
}

// childrenOf are the processes that one has started and that live.
func childrenOf(t *testing.T, pid int) (pids []int) {
	t.Helper()
	if _, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)); err != nil {
		t.Skipf("who started whom is not to be seen here: %v", err)
	}
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		for _, f := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(f); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// TestThousandJoinsOfAProcess: jobs come and go, well and badly, and the agent's process and those of its plugins are as they
// were before, with telemetry and without.
func TestThousandJoinsOfAProcess(t *testing.T) {
	const before, jobs = 100, 300 // of two ranks
	for name, env := range map[string][]string{
		"plain":     nil,
		"telemetry": {"OTEL_METRICS_EXPORTER=console", "OTEL_METRIC_EXPORT_INTERVAL=100", "WEIR_TELEMETRY__FILE=/dev/null"},
	} {
		t.Run(name, func(t *testing.T) {
			agent := harness.Weir(t, harness.RunFolder(t), env, "agent", "--ranks", "2", "--quiet")
			stdout, err := agent.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := agent.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = agent.Process.Signal(syscall.SIGTERM)
				_ = agent.Wait()
			}()
			lines := bufio.NewScanner(stdout)
			if !lines.Scan() {
				t.Fatal("the agent said nothing")
			}
			variable := lines.Text()
			socket := strings.TrimPrefix(variable, "WEIR_AGENT_SOCKET=")
			for n := range before {
				comeAndGo(t, socket, n)
			}
			killedJob(t, variable)
			pids := append(childrenOf(t, agent.Process.Pid), agent.Process.Pid)
			first := settled(t, pids)
			for n := range jobs {
				comeAndGo(t, socket, n)
				if n%100 == 0 {
					killedJob(t, variable)
				}
			}
			last := settled(t, pids)
			t.Logf("processes %v after %d jobs %+v, after %d more %+v", pids, before, first, jobs, last)
			for i := range pids {
				// Go starts threads and takes memory as it needs them; what is kept of every job would be far more.
				f, l := first[i], last[i]
				if l.descriptors > f.descriptors || l.mappings > f.mappings || l.threads > f.threads+jobs/50 || l.resident > f.resident+jobs*32<<10 {
					t.Errorf("process %d grows: %+v, then %+v", pids[i], f, l)
				}
			}
		})
	}
}

// comeAndGo is a job of two ranks of this process. Every tenth decides; of every tenth but one only a half comes.
func comeAndGo(t *testing.T, socket string, n int) {
	t.Helper()
	ranks := 2
	if n%10 == 1 {
		ranks = 1
	}
	var err error
	come := func() bool { err = comeAndGoOnce(t, socket, ranks, n%10 == 0); return err == nil }
	if n%10 == 2 { // a rank that comes before the half before it is seen to be gone meets that, which is an error
		await.Poll(await.For(await.Plenty), come)
	} else {
		come()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func comeAndGoOnce(t *testing.T, socket string, ranks int, decide bool) (err error) {
	limit := await.For(10 * time.Second)
	if ranks == 1 {
		limit = await.Lapse(5 * time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	errs := make(chan error, ranks)
	for r := range ranks {
		go func() {
			errs <- comeAndGoAs(ctx, rank.Options{Socket: socket, Rank: r, WorldSize: 2}, ranks == 1, decide)
		}()
	}
	for range ranks {
		one := <-errs
		if err = errors.Join(err, one); one != nil {
			cancel() // nobody waits for a rank that does not come
		}
	}
	return err
}

func comeAndGoAs(ctx context.Context, opts rank.Options, alone, decide bool) error {
	if alone {
		if _, err := rank.Join(ctx, opts); err == nil {
			return errors.New("half a job has formed")
		}
		return nil
	}
	s, err := rank.Join(ctx, opts)
	if err != nil {
		return err
	}
	g, err := s.NewGroup(ctx, []int{1, 0})
	switch {
	case err != nil:
	case decide:
		x := []float32{1}
		if err = rank.AllReduce(g, x, x, collective.Sum); err == nil && x[0] != 2 {
			err = fmt.Errorf("the sum is %g", x[0])
		}
	default:
		err = g.Barrier(ctx)
	}
	return errors.Join(err, s.Close())
}

// killedJob is a job of processes that are killed in the midst of their calls.
func killedJob(t *testing.T, socket string) {
	t.Helper()
	var ranks []*exec.Cmd
	for r := range 2 {
		cmd := exec.CommandContext(t.Context(), filepath.Join(harness.Bin, "programs", "calls"), "-calls", "1000000000")
		cmd.Env = []string{socket, "WEIR_WORLD_SIZE=2", fmt.Sprintf("WEIR_RANK=%d", r)}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ranks = append(ranks, cmd)
	}
	time.Sleep(150 * time.Millisecond)
	for _, cmd := range ranks {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}
