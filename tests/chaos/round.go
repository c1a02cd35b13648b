package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// round is one run of ranks with faults.
type round struct {
	options
	number   int
	random   *rand.Rand
	scenario scenario
	world    int
	folder   string // where its engine keeps its own

	faults    []string // that were made, by kind
	made      time.Time
	toError   time.Duration // from a rank's end to the end of all others
	calls     int
	failovers []time.Duration

	mu     sync.Mutex
	text   bytes.Buffer // what everybody printed
	engine *exec.Cmd
	begun  chan struct{} // closed when the ranks call
}

// patience bounds a round: everything in it has deadlines that are far shorter.
const patience = 60 * time.Second

func newRound(o options, number int) *round {
	r := &round{options: o, number: number, random: rand.New(rand.NewPCG(o.seed, uint64(number))), begun: make(chan struct{})}
	r.scenario = scenarios[r.random.IntN(len(scenarios))]
	r.world = 2 + r.random.IntN(3)
	if r.random.IntN(5) == 0 {
		r.world = 5 + r.random.IntN(4)
	}
	return r
}

func (r *round) String() string {
	return fmt.Sprintf("%s, %d ranks, faults: %s", r.scenario.name, r.world, strings.Join(r.faults, ", "))
}

func (r *round) fault(kind string) {
	r.faults = append(r.faults, kind)
	r.made = time.Now()
}

// run makes the round and looks at what it left.
func (r *round) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if r.folder, err = os.MkdirTemp("", "wc"); err != nil {
		return err
	}
	defer os.RemoveAll(r.folder)
	err = r.scenario.run(ctx, r)
	if ctx.Err() != nil {
		err = errors.Join(err, fmt.Errorf("not over after %s", patience))
	}
	r.read()
	if m := wrong.FindString(r.output()); m != "" {
		err = errors.Join(err, errors.New(m))
	}
	if left := r.leftovers(); len(left) > 0 {
		err = errors.Join(err, fmt.Errorf("left behind: %s", strings.Join(left, "; ")))
		for pid := range r.processes() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return err
}

// command is a program of the run, in the round's own folder.
func (r *round) command(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append([]string{
		"PATH=" + filepath.Join(r.bin, "programs") + ":" + os.Getenv("PATH"), "HOME=", "XDG_RUNTIME_DIR=" + r.folder, "GOTRACEBACK=single",
		"WEIR_RESTART__FIRST=20ms", "WEIR_DEADLINES__WORKER=300ms", "WEIR_GROUP__DEADLINE=3s", "WEIR_DEADLINES__CALL=500ms", "WEIR_DEADLINES__START=3s",
		"WEIR_DEADLINES__PREPARE=3s", "WEIR_DEADLINES__SELF_TEST=3s", "WEIR_RESTART__MOST=100",
	}, env...)
	w := &lineWriter{round: r}
	c.Stdout, c.Stderr = w, w
	c.WaitDelay = 5 * time.Second
	return c
}

// weir begins `weir run` of checked ranks and waits until they call.
func (r *round) weir(ctx context.Context, env []string, flags ...string) error {
	args := []string{"run", "-q", "-n", strconv.Itoa(r.world), "--", "checked", "-seed", strconv.FormatUint(r.random.Uint64(), 10)}
	r.engine = r.command(ctx, env, filepath.Join(r.bin, "weir"), append(args, flags...)...)
	if err := r.engine.Start(); err != nil {
		return err
	}
	return r.awaitCalls(ctx)
}

func (r *round) awaitCalls(ctx context.Context) error {
	select {
	case <-r.begun:
		return nil
	case <-ctx.Done():
		return errors.New("the ranks do not call")
	}
}

// lineWriter keeps what is printed and sees when the ranks call.
type lineWriter struct{ round *round }

func (w *lineWriter) Write(p []byte) (int, error) {
	r := w.round
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text.Write(p)
	select {
	case <-r.begun:
	default:
		if bytes.Contains(r.text.Bytes(), []byte("calling\n")) {
			close(r.begun)
		}
	}
	return len(p), nil
}

var _ io.Writer = (*lineWriter)(nil)

func (r *round) output() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

var (
	allRight = regexp.MustCompile(`(?m)^rank \d+: (\d+) calls, all right$`)
	wrong    = regexp.MustCompile(`(?m)^.*element \d+ is .*, want .*$`)
	added    = regexp.MustCompile(`a call went on with another backend.* added=(\S+)`)
)

// read takes the figures from what was printed.
func (r *round) read() {
	text := r.output()
	for _, m := range added.FindAllStringSubmatch(text, -1) {
		if d, err := time.ParseDuration(m[1]); err == nil {
			r.failovers = append(r.failovers, d)
		}
	}
	for _, m := range allRight.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(m[1])
		r.calls = max(r.calls, n)
	}
}

// right says why the run was not right on every rank.
func (r *round) right(ended error) error {
	if n := len(allRight.FindAllString(r.output(), -1)); n != r.world {
		return fmt.Errorf("%d of %d ranks are right; it ended with %v", n, r.world, ended)
	}
	return ended
}

// processes are those that know of the round's folder, with their command lines.
func (r *round) processes() map[int]string {
	found := map[int]string{}
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range all {
		about, _ := os.ReadFile(filepath.Join(p, "environ"))
		line, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		if pid, err := strconv.Atoi(filepath.Base(p)); err == nil && len(line) > 0 && strings.Contains(string(about)+string(line), r.folder) {
			found[pid] = strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// some are the processes whose command line begins with a path of the programs', in order.
func (r *round) some(path string) []int {
	var pids []int
	for pid, line := range r.processes() {
		if line == path || strings.HasPrefix(line, path+" ") {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// leftovers are processes and files that outlive the round.
func (r *round) leftovers() []string {
	var left []string
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		left, _ = filepath.Glob(filepath.Join(r.folder, "*"))
		for pid, line := range r.processes() {
			left = append(left, fmt.Sprintf("process %d (%s)", pid, line))
		}
		if len(left) == 0 {
			break
		}
	}
	return left
}

// pause waits for a random time of at most so long.
func (r *round) pause(most time.Duration) { time.Sleep(time.Duration(r.random.Int64N(int64(most)))) }
