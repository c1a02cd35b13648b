package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/weir-project/weir/tests/await"
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
	if took := time.Since(at); took > 2*await.For(hearPatience) {
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
