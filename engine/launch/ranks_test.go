package launch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/weir-project/weir/tests/await"
)

// outcome is what became of a run.
type outcome struct {
	stdout, stderr string
	exits          map[int]Exit
	started        map[int]int // process groups by rank
	err            error
}

// run runs a shell script as n ranks. It is told its rank in $R.
func run(t *testing.T, n int, script string, change func(*Ranks)) outcome {
	t.Helper()
	return runCtx(t.Context(), t, n, script, change)
}

func runCtx(ctx context.Context, t *testing.T, n int, script string, change func(*Ranks)) outcome {
	t.Helper()
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	o := outcome{exits: map[int]Exit{}, started: map[int]int{}}
	var stdout, stderr strings.Builder
	r := Ranks{
		Command: []string{"sh", "-c", script}, N: n, Stdout: &stdout, Stderr: &stderr,
		Environ: func(rank int) []string { return []string{"PATH=" + os.Getenv("PATH"), fmt.Sprintf("R=%d", rank)} },
		Started: func(rank, pgid int) { o.started[rank] = pgid },
		Exited:  func(e Exit) { o.exits[e.Rank] = e },
	}
	if change != nil {
		change(&r)
	}
	o.err = Run(ctx, r)
	o.stdout, o.stderr = stdout.String(), stderr.String()
	if len(o.exits) != len(o.started) {
		t.Errorf("%d ranks started and %d ended", len(o.started), len(o.exits))
	}
	for rank, e := range o.exits {
		if e.PID != o.started[rank] {
			t.Errorf("rank %d: process %d ended, %d had been started", rank, e.PID, o.started[rank])
		}
		if alive(e.PID) {
			t.Errorf("rank %d: process %d still runs", rank, e.PID)
		}
	}
	return o
}

func sortedLines(s string) []string { return slices.Sorted(strings.Lines(s)) }

// wantRankError checks which rank is said to have failed first, and how.
func wantRankError(t *testing.T, err error, rank int, words string) {
	t.Helper()
	var e *RankError
	if !errors.As(err, &e) || e.Exit.Rank != rank || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v, want one line about rank %d with %q", err, rank, words)
	}
}

func TestRunAllEnd(t *testing.T) {
	o := run(t, 3, "echo out $R; echo err $R >&2; read line || echo no input $R", nil)
	if o.err != nil {
		t.Error(o.err)
	}
	want := []string{"no input 0\n", "no input 1\n", "no input 2\n", "out 0\n", "out 1\n", "out 2\n"}
	if diff := cmp.Diff(want, sortedLines(o.stdout)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"err 0\n", "err 1\n", "err 2\n"}, sortedLines(o.stderr)); diff != "" {
		t.Error(diff)
	}
	for rank, e := range o.exits {
		if e.Failed() || !slices.Equal(e.Stderr, []string{fmt.Sprintf("err %d", rank)}) {
			t.Errorf("%s; last lines %q", e, e.Stderr)
		}
	}
}

func TestRunOneFails(t *testing.T) {
	script := `[ $R = 1 ] || exec sleep 60
i=1; while [ $i -le 15 ]; do echo "line $i" >&2; echo >&2; i=$((i+1)); done
head -c 700 /dev/zero | tr '\0' x >&2; echo >&2; echo last >&2; exit 3`
	o := run(t, 3, script, nil)
	want := "rank 1 exited with code 3; its last lines on standard error: line 8 | line 9 | "
	wantRankError(t, o.err, 1, want)
	if o.err == nil || !strings.HasSuffix(o.err.Error(), "line 15 | "+strings.Repeat("x", tailBytes)+" | last") {
		t.Errorf("the error ends otherwise: %v", o.err)
	}
	if !strings.Contains(o.stderr, strings.Repeat("x", 700)+"\n") {
		t.Error("standard error was not passed on whole")
	}
	for _, rank := range []int{0, 2} {
		if got, want := o.exits[rank].String(), fmt.Sprintf("rank %d was killed by signal 15 (terminated)", rank); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestRunKilledBySignal(t *testing.T) {
	o := run(t, 2, "[ $R = 0 ] && kill -KILL $$; exec sleep 60", nil)
	wantRankError(t, o.err, 0, "rank 0 was killed by signal 9 (killed)")
	if !o.exits[0].Failed() {
		t.Error("a rank that was killed has not failed")
	}
}

// TestRunCancelled ends a run whose first rank ignores SIGTERM, and whose second does not.
func TestRunCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	why := errors.New("enough")
	script := `[ $R = 0 ] && trap '' TERM; echo ready; while :; do sleep 0.01; done`
	read, write := io.Pipe()
	go func() {
		lines := bufio.NewScanner(read)
		for ready := 0; ready < 2 && lines.Scan(); ready++ {
		}
		cancel(why)
		_, _ = io.Copy(io.Discard, read)
	}()
	o := runCtx(ctx, t, 2, script, func(r *Ranks) {
		r.Stdout, r.stopPatience = write, await.For(200*time.Millisecond)
		r.Exited = chain(r.Exited, func(e Exit) {
			if e.Rank == 0 { // the last
				_ = write.Close()
			}
		})
	})
	if !errors.Is(o.err, why) {
		t.Errorf("error %v, want the cause", o.err)
	}
	for rank, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		if got := o.exits[rank].State.Sys().(syscall.WaitStatus).Signal(); got != signal {
			t.Errorf("rank %d was killed by %v, want %v", rank, got, signal)
		}
	}
}

func chain(fs ...func(Exit)) func(Exit) {
	return func(e Exit) {
		for _, f := range fs {
			f(e)
		}
	}
}

func TestRunCancelledBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if o := runCtx(ctx, t, 2, "exec sleep 60", nil); !errors.Is(o.err, context.Canceled) {
		t.Errorf("error %v", o.err)
	}
}

func TestRunCannotStart(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for words, command := range map[string]string{
		`start rank 0: there is no program "` + dir + `/missing"`:  dir + "/missing",
		`start rank 0: there is no program "weir-no-such-program"`: "weir-no-such-program",
		`start rank 0: "` + plain + `" is not an executable file`:  plain,
		`start rank 0: "` + dir + `" is not an executable file`:    dir,
	} {
		o := run(t, 2, "", func(r *Ranks) { r.Command = []string{command} })
		if o.err == nil || o.err.Error() != words {
			t.Errorf("error %v, want %q", o.err, words)
		}
		if len(o.started) != 0 {
			t.Errorf("%s: started %v", command, o.started)
		}
	}
}

// TestRunSecondCannotStart has the program go away between two ranks.
func TestRunSecondCannotStart(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexec sleep 60\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	o := run(t, 3, "", func(r *Ranks) {
		environ := r.Environ
		r.Command = []string{program}
		r.Environ = func(rank int) []string {
			if rank == 1 {
				_ = os.Remove(program)
			}
			return environ(rank)
		}
	})
	if o.err == nil || !strings.Contains(o.err.Error(), "start rank 1: there is no program") {
		t.Errorf("error %v", o.err)
	}
	if !slices.Equal(slices.Collect(maps.Keys(o.exits)), []int{0}) {
		t.Errorf("ended: %v, want rank 0 and no other", o.exits)
	}
}

func TestRunGrandchildrenAreKilled(t *testing.T) {
	o := run(t, 2, "sleep 60 & echo $!", nil)
	if o.err != nil {
		t.Fatal(o.err)
	}
	pids := sortedLines(o.stdout)
	if len(pids) != 2 {
		t.Fatalf("the ranks printed %q", o.stdout)
	}
	for _, line := range pids {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		wantGone(t, pid)
	}
}

// TestRunDeserterKeepsOutputOpen has a rank leave a process that the rank's group does not hold. It may go on, and the
// run may end.
func TestRunDeserterKeepsOutputOpen(t *testing.T) {
	o := run(t, 1, "", func(r *Ranks) { r.Command = []string{os.Args[0], asDeserter} })
	if o.err != nil {
		t.Fatal(o.err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(o.stdout))
	if err != nil {
		t.Fatal(err)
	}
	if !alive(pid) {
		t.Fatal("the process that keeps the output open has ended, so this shows nothing")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	wantGone(t, pid)
}

func TestRunLabels(t *testing.T) {
	o := run(t, 2, `echo a; echo; printf 'b\nc'; echo d >&2`, func(r *Ranks) { r.Label = true })
	if o.err != nil {
		t.Fatal(o.err)
	}
	for rank := range 2 {
		label := fmt.Sprintf("[%d] ", rank)
		for _, line := range []string{"a\n", "\n", "b\n", "c"} {
			if !strings.Contains(o.stdout, label+line) {
				t.Errorf("no line %q in %q", label+line, o.stdout)
			}
		}
		if !strings.Contains(o.stderr, label+"d\n") || o.exits[rank].Stderr[0] != "d" {
			t.Errorf("no line %q in %q, or it is labelled in %q", label+"d\n", o.stderr, o.exits[rank].Stderr)
		}
	}
}

func TestRunLinesAreNotTorn(t *testing.T) {
	const n, each = 4, 400
	script := `p=; i=0; while [ $i -lt 400 ]; do echo "<$R $i $p>"; p="x$p"; i=$((i+1)); done`
	o := run(t, n, script, nil)
	if o.err != nil {
		t.Fatal(o.err)
	}
	next := [n]int{}
	for line := range strings.Lines(o.stdout) {
		var rank, i int
		if _, err := fmt.Sscanf(line, "<%d %d", &rank, &i); err != nil {
			t.Fatalf("line %q", line)
		}
		if want := fmt.Sprintf("<%d %d %s>\n", rank, next[rank], strings.Repeat("x", next[rank])); line != want {
			t.Fatalf("line %q, want %q", line, want)
		}
		next[rank]++
	}
	if next != [n]int{each, each, each, each} {
		t.Errorf("lines of each rank: %v, want %d", next, each)
	}
}
