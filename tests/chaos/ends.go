package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

const (
	engineGets = "engine of weir run gets "
	runKilled  = "rank of weir run killed"
)

func planEnds(r *rand.Rand, p *plan) {
	p.groups = r.IntN(3)
	for range r.IntN(3) {
		p.add(drawStrike(r, p, false))
	}
	f := fault{after: between(r, 10*time.Millisecond, 200*time.Millisecond), whom: r.IntN(p.world), job: -1}
	f.kind = runKilled
	if r.IntN(4) > 0 {
		f.arg = oneOf(r, "SIGKILL", "SIGTERM", "SIGINT")
		f.kind = engineGets + f.arg
	}
	p.add(f)
}

var signals = map[string]syscall.Signal{"SIGKILL": syscall.SIGKILL, "SIGTERM": syscall.SIGTERM, "SIGINT": syscall.SIGINT}

// ends: everything of weir run ends with its engine, or when a rank has.
func ends(r *round) error {
	engine, err := r.begin(nil, "-for=1m")
	if err != nil {
		return err
	}
	struck := r.strikeAll(0)
	f := r.faults[len(r.faults)-1]
	r.sleep(f.after)
	at := time.Now()
	if f.kind == runKilled {
		pid, err := r.rank(f.whom)
		if err != nil {
			return errors.Join(struck, err)
		}
		at = time.Now()
		send(pid, syscall.SIGKILL)
	} else {
		send(engine.pid(), signals[f.arg])
	}
	if err := engine.wait(); err == nil {
		return errors.Join(struck, errors.New("the run ended well"))
	}
	if took := time.Since(at); took > 2*hearPatience {
		struck = errors.Join(struck, fmt.Errorf("%s: it took %s to end", f.kind, took))
	}
	if f.kind == runKilled {
		if _, found := r.all.find(regexp.MustCompile(fmt.Sprintf(`rank %d was killed by signal 9`, f.whom))); !found {
			return errors.Join(struck, fmt.Errorf("nothing says that rank %d was killed", f.whom))
		}
	}
	r.note(f, at, "everything ends")
	return struck
}

const (
	agentKilled  = "weir agent killed"
	orphanKilled = "rank killed after the agent"
)

func planAgentEnds(r *rand.Rand, p *plan) {
	p.add(drawStrike(r, p, false))
	p.add(fault{kind: agentKilled, after: between(r, 10*time.Millisecond, 200*time.Millisecond), job: -1})
	p.add(fault{kind: orphanKilled, after: between(r, 10*time.Millisecond, 200*time.Millisecond), whom: r.IntN(p.world), job: -1})
}

// agentEnds: without the agent ranks go on with what was decided, and still hear of a rank's death.
func agentEnds(r *round) error {
	a, err := r.startAgent()
	if err != nil {
		return err
	}
	members, err := r.join(a, "-op=sum", "-for=1m")
	if err != nil {
		return errors.Join(err, a.stop())
	}
	defer disband(members)
	struck := r.strikeAll(0)
	for _, m := range members {
		if _, err := m.said.await(r.ctx, regexp.MustCompile(`^under way$`)); err != nil {
			return errors.Join(struck, err)
		}
	}
	killed, last := r.faults[1], r.faults[2]
	r.sleep(killed.after)
	send(a.pid(), syscall.SIGKILL)
	_ = a.wait() // killed
	at := time.Now()
	r.sleep(last.after)
	for n, m := range members {
		select {
		case <-m.ended:
			return errors.Join(struck, fmt.Errorf("rank %d has ended after the agent: %s", n, m.said))
		default:
		}
	}
	r.note(killed, at, "ranks go on with what is decided")
	err = r.last(members, last, "")
	left, _ := filepath.Glob(filepath.Join(r.folder, "*"))
	for _, path := range left { // the next engine of the user would do it
		err = errors.Join(err, os.RemoveAll(path))
	}
	return errors.Join(struck, err)
}

const lastKilled = "last backend killed"

func planLast(r *rand.Rand, p *plan) {
	for range 5 {
		p.add(fault{kind: lastKilled, after: between(r, 10*time.Millisecond, 200*time.Millisecond)})
	}
}

var noBackend = regexp.MustCompile(`(\d+) calls had no backend`)

// lastBackend: when nobody else serves a class its call is an error on every rank, and the next one asks again.
func lastBackend(r *round) error {
	env := append(r.workers("fine@"), "WEIR_CASCADE__DISABLED=shm-flat,shm-twoshot,shm-direct")
	engine, err := r.begin(env, r.until(), "-again", "-op=sum")
	if err != nil {
		return err
	}
	var struck error
	for _, f := range r.faults {
		r.sleep(f.after)
		at := time.Now()
		if struck = r.strike(r.worker(0), f, kill); struck != nil {
			break
		}
		r.note(f, at, "an error of the call on every rank, or none was made; the next is served")
	}
	if err := r.end(engine); err != nil {
		return err
	}
	failed := map[string]int{}
	for _, l := range r.all.findAll(noBackend) {
		failed[noBackend.FindStringSubmatch(l.text)[1]]++
	}
	if len(failed) > 1 || len(failed) == 1 && failed[firstOf(failed)] != r.world {
		return fmt.Errorf("calls had no backend on some ranks alone: %v", failed)
	}
	return struck
}

func firstOf(m map[string]int) string {
	for k := range m {
		return k
	}
	return ""
}

const lie = "plugin lies: "

// whatIsSaid are the codes of declines of plugins that lie.
var whatIsSaid = map[string]string{
	"hangs": "TIMEOUT", "exits": "PLUGIN_CRASHED", "hangs in accept": "TIMEOUT", "crashes in accept": "PLUGIN_CRASHED", "panics in accept": "OTHER",
	"accepts nothing": "OTHER", "hangs in plan": "TIMEOUT", "crashes in plan": "PLUGIN_CRASHED", "unproved plan": "PLAN_REJECTED", "impossible plan": "PLAN_REJECTED",
}

func planLies(r *rand.Rand, p *plan) {
	lies := []string{"hangs", "exits", "hangs in accept", "crashes in accept", "panics in accept", "accepts nothing", "hangs in plan", "crashes in plan", "impossible plan"}
	if p.world > 2 {
		lies = append(lies, "unproved plan") // for two it is right
	}
	for n, at := range r.Perm(len(lies))[:4] {
		p.add(fault{kind: lie + lies[at], whom: n, arg: lies[at]})
	}
}

// lies: whatever plugins say or do when they are asked is a decline, with its code, and the next is asked.
func lies(r *round) error {
	env := []string{"WEIR_DEADLINES__START=2500ms", "WEIR_DEADLINES__CALL=500ms", "WEIR_RESTART__FIRST=20s", "WEIR_RESTART__LONGEST=20s"}
	for _, f := range r.faults {
		key := fmt.Sprintf("WEIR_PLUGINS__LIAR%d", f.whom)
		env = append(env, key+"__PATH="+filepath.Join(r.bin, "programs", "badplugin"), key+"__ENV__BAD="+f.arg, fmt.Sprintf("%s__ENV__NAME=liar%d", key, f.whom))
	}
	at := time.Now()
	engine, err := r.begin(env, "-calls=60")
	if err != nil {
		return err
	}
	if err := r.right(r.all, engine.wait()); err != nil {
		return err
	}
	for _, f := range r.faults {
		code := whatIsSaid[f.arg]
		said := regexp.MustCompile(fmt.Sprintf(`liar%d .*decline +%s`, f.whom, code))
		if _, found := r.all.find(said); !found {
			return fmt.Errorf("nobody says that the plugin that %s is declined with %s", strings.TrimSpace(f.arg), code)
		}
		r.note(f, at, "declined: "+code)
	}
	return nil
}
