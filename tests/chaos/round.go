package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-project/weir/tests/await"
)

// round is a plan that is carried out.
type round struct {
	options
	*plan
	ctx    context.Context
	folder string // where its engines keep their own
	own    string // what chaos itself keeps: links to plugins, a file that ends the ranks
	all    *transcript

	mu       sync.Mutex
	children map[int]bool // that somebody waits for
	engine   int          // the process that reloads are for

	results   []result
	toError   []time.Duration // from a rank's death to the error of each other
	calls     int             // that ranks made and checked, of all ranks together
	failovers []time.Duration
}

// result is what became of a fault.
type result struct {
	fault
	at      time.Time
	outcome string
}

// patience bounds a round: everything in it has deadlines that are far shorter.
const patience = 90 * time.Second

func newRound(o options, p *plan) *round {
	return &round{options: o, plan: p, all: newTranscript(), children: map[int]bool{}}
}

// run makes the round and looks at what it left.
func (r *round) run(ctx context.Context) (err error) {
	limit := await.For(patience)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the round is not over after %s", limit))
	defer cancel()
	r.ctx = ctx
	if err := adoptOrphans(); err != nil {
		return err
	}
	if r.folder, err = os.MkdirTemp("", "wc"); err != nil {
		return err
	}
	defer os.RemoveAll(r.folder)
	if r.own, err = os.MkdirTemp("", "wx"); err != nil {
		return err
	}
	defer os.RemoveAll(r.own)
	before := lookAround()
	err = r.scenario.run(r)
	if ctx.Err() != nil {
		err = errors.Join(err, context.Cause(ctx))
	}
	err = errors.Join(err, r.read(), r.complete(), r.leftovers(before))
	return err
}

// complete says which of the planned faults were not made.
func (r *round) complete() error {
	if missing := len(r.faults) - len(r.results); missing != 0 {
		return fmt.Errorf("%d of %d faults were not made", missing, len(r.faults))
	}
	return nil
}

// note records a fault that was made and what became of it.
func (r *round) note(f fault, at time.Time, outcome string) {
	r.results = append(r.results, result{f, at, outcome})
}

// report is the round in words.
func (r *round) report() string {
	var b strings.Builder
	fmt.Fprintln(&b, r.title())
	for _, x := range r.results {
		fmt.Fprintf(&b, "  %s: %s\n", x.fault, x.outcome)
	}
	return b.String()
}

// settings are the deadlines of all rounds. They are short, but no fault that should only cost time meets them.
var settings = []string{
	"WEIR_GROUP__DEADLINE=15s", "WEIR_GROUP__JOIN_DEADLINE=20s",
	"WEIR_DEADLINES__START=3s", "WEIR_DEADLINES__CALL=1s", "WEIR_DEADLINES__PREPARE=3s", "WEIR_DEADLINES__SELF_TEST=3s", "WEIR_DEADLINES__WORKER=250ms",
	"WEIR_RESTART__FIRST=10ms", "WEIR_RESTART__LONGEST=20ms", "WEIR_RESTART__MOST=1000",
	"WEIR_PLUGINS__NCCL__DISABLED=true", // it is there for ranks with a device
}

// command is a program of the run, whose output goes into transcripts.
func (r *round) command(env []string, name string, args []string, to ...*transcript) *exec.Cmd {
	c := exec.CommandContext(r.ctx, name, args...)
	c.Env = append([]string{
		"PATH=" + filepath.Join(r.bin, "programs") + ":" + os.Getenv("PATH"), "HOME=", "XDG_RUNTIME_DIR=" + r.folder, "TMPDIR=" + r.folder, "GOTRACEBACK=all",
	}, append(append([]string{}, settings...), env...)...)
	w := &writer{to: append(to, r.all)}
	c.Stdout, c.Stderr = w, w
	c.WaitDelay = 5 * time.Second
	return c
}

// reload is `weir plugins reload` and what it says.
func (r *round) reload(args ...string) (said *transcript, err error) {
	said = newTranscript()
	args = append([]string{"plugins", "reload", "--pid", strconv.Itoa(r.engine)}, args...)
	c, err := r.start(r.command(nil, filepath.Join(r.bin, "weir"), args, said))
	if err != nil {
		return said, err
	}
	return said, c.wait()
}

// checked are arguments of the ranks' program.
func (r *round) checked(more ...string) []string {
	args := []string{"-seed", strconv.FormatUint(r.plan.calls, 10), "-pause=1ms", "-groups", strconv.Itoa(r.groups)}
	if r.device {
		args = append(args, "-device")
	}
	return append(append(args, defects[r.plant].args(r)...), more...)
}

// begin starts `weir run` of checked ranks and waits until they call.
func (r *round) begin(env []string, checked ...string) (*child, error) {
	args := append([]string{"run", "--label", "-n", strconv.Itoa(r.world), "--", "checked"}, r.checked(checked...)...)
	engine, err := r.start(r.command(env, filepath.Join(r.bin, "weir"), args))
	if err != nil {
		return nil, err
	}
	r.engine = engine.pid()
	if _, err = engine.says(r.ctx, r.all, calling); err != nil {
		engine.kill()
	}
	return engine, err
}

// until is the argument that has ranks go on until end.
func (r *round) until() string { return "-until=" + filepath.Join(r.own, "over") }

// end has ranks that go on end, and waits for that of the engine; all of them must be right.
func (r *round) end(engine *child) error {
	if err := os.WriteFile(filepath.Join(r.own, "over"), nil, 0o600); err != nil {
		return err
	}
	return r.right(r.all, engine.wait())
}

var (
	calling  = regexp.MustCompile(`^(\[\d+\] )?calling$`)
	allRight = regexp.MustCompile(`^(?:\[\d+\] )?rank \d+: (\d+) calls, all right$`)
	wrong    = regexp.MustCompile(`checked: .*element \d+ is .*, want `)
	ended    = regexp.MustCompile(`checked: call (\d+) \(`)
	added    = regexp.MustCompile(`a call went on with another backend.* added=(\S+)`)
)

// right says why not every rank has made every call rightly.
func (r *round) right(t *transcript, end error) error {
	found := t.findAll(allRight)
	if len(found) != r.world {
		return fmt.Errorf("%d of %d ranks are right; it ended with %v", len(found), r.world, end)
	}
	counts := map[string]bool{}
	for _, l := range found {
		counts[allRight.FindStringSubmatch(l.text)[1]] = true
	}
	if len(counts) != 1 {
		return fmt.Errorf("ranks have made different numbers of calls: %v", found)
	}
	return end
}

// read takes the figures from what was printed. The error is a result that was wrong, in whatever round.
func (r *round) read() error {
	for _, l := range r.all.findAll(added) {
		if d, err := time.ParseDuration(added.FindStringSubmatch(l.text)[1]); err == nil {
			r.failovers = append(r.failovers, d)
		}
	}
	for _, l := range r.all.findAll(allRight) {
		n, _ := strconv.Atoi(allRight.FindStringSubmatch(l.text)[1])
		r.calls += n
	}
	for _, l := range r.all.findAll(ended) {
		n, _ := strconv.Atoi(ended.FindStringSubmatch(l.text)[1])
		r.calls += n - 1 // that one has failed
	}
	if l, found := r.all.find(wrong); found {
		return errors.New(l.text)
	}
	return nil
}

// sleep waits; false if the round is over.
func (r *round) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-r.ctx.Done():
		return false
	}
}
