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
	"syscall"
	"time"
)

// scenario is a kind of round.
type scenario struct {
	name string
	run  func(context.Context, *round) error
}

// scenarios are chosen with equal chance; those with many faults, and the shortest, more than once.
var scenarios = []scenario{
	{"plugins of plans end", pluginsEnd},
	{"plugins of plans end", pluginsEnd},
	{"workers end", workersEnd},
	{"workers end", workersEnd},
	{"a worker goes wrong", workerGoesWrong},
	{"a worker goes wrong", workerGoesWrong},
	{"plugins are reloaded", pluginsReloaded},
	{"slow ranks", slowRanks},
	{"a rank ends", rankEnds},
	{"a rank stops", rankStops},
	{"ranks disagree", ranksDisagree},
	{"a plugin lies", pluginLies},
	{"the engine ends", engineEnds},
	{"the agent ends", agentEnds},
}

const callsFor = "-for=1200ms" // how long the ranks call in rounds that end well

// pluginsEnd: ranks never notice what becomes of the plugin whose plan they run.
func pluginsEnd(ctx context.Context, r *round) error {
	if err := r.weir(ctx, nil, callsFor, "-pause=1ms"); err != nil {
		return err
	}
	for range 6 + r.random.IntN(6) {
		r.pause(120 * time.Millisecond)
		r.strike(filepath.Join(r.bin, "plugins", "shm"), "plugin of a plan")
	}
	return r.right(r.engine.Wait())
}

// pluginsReloaded: calls go on while a plugin is replaced, and all ranks switch at one call; half of the time the new process
// is killed right after.
func pluginsReloaded(ctx context.Context, r *round) error {
	if err := r.weir(ctx, nil, "-for=3s", "-pause=1ms"); err != nil {
		return err
	}
	for range 1 + r.random.IntN(3) {
		r.pause(200 * time.Millisecond)
		if err := r.command(ctx, nil, filepath.Join(r.bin, "weir"), "plugins", "reload", "shm").Run(); err != nil {
			return fmt.Errorf("weir plugins reload: %w", err)
		}
		r.fault("plugin reloaded")
		if r.random.IntN(2) == 0 {
			r.strike(filepath.Join(r.bin, "plugins", "shm"), "plugin of a plan")
		}
	}
	return r.right(r.engine.Wait())
}

// strike kills a process of a program, or stops it for a while.
func (r *round) strike(path, what string) {
	pids := r.some(path)
	if len(pids) == 0 {
		return // it is being restarted
	}
	pid := pids[r.random.IntN(len(pids))]
	if r.random.IntN(3) == 0 {
		if syscall.Kill(pid, syscall.SIGSTOP) == nil {
			r.fault(what + " stopped for a while")
			time.AfterFunc(100*time.Millisecond, func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
		}
		return
	}
	if syscall.Kill(pid, syscall.SIGKILL) == nil {
		r.fault(what + " killed")
	}
}

// badWorkers configures worker plugins; the programs of all are the same.
func (r *round) badWorkers(faults ...string) []string {
	var env, names []string
	for i, f := range faults {
		how, at, _ := strings.Cut(f, "@")
		name := fmt.Sprintf("bad%d", i)
		names = append(names, name)
		key := "WEIR_PLUGINS__" + strings.ToUpper(name)
		env = append(env, key+"__PATH="+r.badWorker(), key+"__ENV__NAME="+name, key+"__ENV__BAD="+how, key+"__ENV__AT="+at)
	}
	return append(env, "WEIR_CASCADE__ORDER="+strings.Join(names, ","))
}

func (r *round) badWorker() string { return filepath.Join(r.bin, "programs", "badworker") }

// workersEnd: calls go on with the next backend whenever a worker's process is killed or stopped.
func workersEnd(ctx context.Context, r *round) error {
	if err := r.weir(ctx, r.badWorkers("fine@", "fine@"), callsFor, "-pause=1ms"); err != nil {
		return err
	}
	for range 4 + r.random.IntN(4) {
		r.pause(150 * time.Millisecond)
		r.strike(r.badWorker(), "worker")
	}
	return r.right(r.engine.Wait())
}

// workerGoesWrong: at a tile of its own choice, in the self-test or in a call.
func workerGoesWrong(ctx context.Context, r *round) error {
	var faults []string
	for range 1 + r.random.IntN(3) {
		how := []string{"killed", "stopped", "hangs", "fails", "panics"}[r.random.IntN(5)]
		faults = append(faults, fmt.Sprintf("%s@%d", how, 1+r.random.IntN(12000)))
		r.fault("worker " + how + " at a tile")
	}
	if err := r.weir(ctx, r.badWorkers(faults...), callsFor, "-pause=1ms"); err != nil {
		return err
	}
	return r.right(r.engine.Wait())
}

// slowRanks: one that does nothing for a while, but less than the deadline, costs only time.
func slowRanks(ctx context.Context, r *round) error {
	if err := r.weir(ctx, nil, callsFor); err != nil {
		return err
	}
	for range 2 + r.random.IntN(3) {
		r.pause(200 * time.Millisecond)
		if pid := r.rank(); pid != 0 && syscall.Kill(pid, syscall.SIGSTOP) == nil {
			r.fault("rank stopped for a while")
			time.Sleep(time.Duration(10+r.random.IntN(150)) * time.Millisecond)
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	return r.right(r.engine.Wait())
}

// rank is the process of a random rank; 0 if there is none.
func (r *round) rank() int {
	pids := r.some("checked")
	if len(pids) == 0 {
		return 0
	}
	return pids[r.random.IntN(len(pids))]
}

// rankEnds: the others get an error that names it, and the run ends.
func rankEnds(ctx context.Context, r *round) error {
	if err := r.weir(ctx, nil, "-for=1m"); err != nil {
		return err
	}
	r.pause(500 * time.Millisecond)
	pid := r.rank()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	r.fault("rank killed")
	err := r.failed(fmt.Sprintf(`\(process %d\) has ended`, pid))
	r.toError = time.Since(r.made)
	return err
}

// failed waits for the end of a run that must fail with some words, a regular expression.
func (r *round) failed(words string) error {
	if err := r.engine.Wait(); err == nil {
		return errors.New("the run ended well")
	}
	if !regexp.MustCompile(words).MatchString(r.output()) {
		return fmt.Errorf("nobody says %q", words)
	}
	return nil
}

// rankStops: after the deadline the others get an error that names it and what it did last.
func rankStops(ctx context.Context, r *round) error {
	if err := r.weir(ctx, []string{"WEIR_GROUP__DEADLINE=500ms"}, "-for=1m"); err != nil {
		return err
	}
	r.pause(300 * time.Millisecond)
	pid := r.rank()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	r.fault("rank stopped")
	defer syscall.Kill(pid, syscall.SIGCONT)
	return r.failed(`rank.* within 500ms|rank \d did not report weir.\w+ within`) // in a call, or in a decision
}

// ranksDisagree: one makes a call of another size or type; all are told who called what.
func ranksDisagree(ctx context.Context, r *round) error {
	env := []string(nil)
	if r.random.IntN(2) == 0 {
		env = r.badWorkers("fine@")
	}
	r.fault("ranks disagree")
	rank := r.random.IntN(r.world)
	if err := r.weir(ctx, env, "-for=1m", fmt.Sprintf("-strange=%d@%d", rank, 3+r.random.IntN(300))); err != nil {
		return err
	}
	return r.failed("ranks disagree")
}

// pluginLies: whatever a plugin says or does when it is asked is a decline.
func pluginLies(ctx context.Context, r *round) error {
	lies := []string{"hangs", "exits", "hangs in accept", "crashes in accept", "panics in accept", "accepts nothing", "hangs in plan", "crashes in plan", "unproved plan", "impossible plan"}
	lie := lies[r.random.IntN(len(lies))]
	r.fault("plugin: " + lie)
	env := []string{"WEIR_PLUGINS__BAD__PATH=" + filepath.Join(r.bin, "programs", "badplugin"), "WEIR_PLUGINS__BAD__ENV__BAD=" + lie, "WEIR_DEADLINES__START=2s"}
	if err := r.weir(ctx, env, "-calls=100"); err != nil {
		return err
	}
	return r.right(r.engine.Wait())
}

// engineEnds: under weir run everything ends with it.
func engineEnds(ctx context.Context, r *round) error {
	if err := r.weir(ctx, nil, "-for=1m"); err != nil {
		return err
	}
	r.pause(300 * time.Millisecond)
	signal := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT}[r.random.IntN(3)]
	if err := r.engine.Process.Signal(signal); err != nil {
		return err
	}
	r.fault("engine gets " + signal.String())
	if err := r.engine.Wait(); err == nil {
		return errors.New("the run ended well")
	}
	return nil
}

// agentEnds: under weir agent the ranks go on with what was decided.
func agentEnds(ctx context.Context, r *round) error {
	agent := r.command(ctx, nil, filepath.Join(r.bin, "weir"), "agent", "-q", "--ranks", strconv.Itoa(r.world))
	agent.Stdout = nil
	out, err := agent.StdoutPipe()
	if err != nil {
		return err
	}
	if err := agent.Start(); err != nil {
		return err
	}
	first := make([]byte, 4096)
	n, err := out.Read(first)
	if err != nil {
		return err
	}
	socket, _, _ := strings.Cut(string(first[:n]), "\n")
	seed := strconv.FormatUint(r.random.Uint64(), 10)
	ranks := make([]*exec.Cmd, r.world)
	for i := range ranks {
		env := []string{socket, fmt.Sprintf("WEIR_RANK=%d", i), fmt.Sprintf("WEIR_WORLD_SIZE=%d", r.world)}
		ranks[i] = r.command(ctx, env, filepath.Join(r.bin, "programs", "checked"), "-seed", seed, "-op=sum", "-calls=3000", "-pause=1ms")
		if err := ranks[i].Start(); err != nil {
			return err
		}
	}
	if err := r.awaitCalls(ctx); err != nil {
		return err
	}
	r.pause(200 * time.Millisecond)
	if err := agent.Process.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	r.fault("agent killed")
	_ = agent.Wait() // killed
	var errs []error
	for _, rank := range ranks {
		errs = append(errs, rank.Wait())
	}
	left, _ := filepath.Glob(filepath.Join(r.folder, "*"))
	for _, path := range left { // the next engine of the user would do it
		_ = os.RemoveAll(path)
	}
	return r.right(errors.Join(errs...))
}
