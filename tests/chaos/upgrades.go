package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Versions of the plugin that is upgraded, and what the engine says of those that cannot serve.
var (
	goodVersions = map[bool][]string{false: {"one", "two", "small", "declines"}, true: {"worker-one", "worker-two"}}
	badVersions  = map[bool]map[string]string{
		false: {"exits": "exit status 3", "hangs": "did not come up within", "renamed": "it now offers", "worker-one": "it now offers", "crashes": "signal: killed", "rejected": "PLAN_REJECTED", "slow": "TIMEOUT"},
		true:  {"worker-wrong": "SELFTEST_FAILED", "worker-hangs": "TIMEOUT", "worker-killed": "PLUGIN_CRASHED", "worker-refuses": "not today", "one": "it now offers"},
	}
)

const (
	upgraded      = "plugin upgraded"
	upgradeStruck = "plugin killed while it is upgraded"
	upgradeBroken = "upgrade to a broken version: "
	upgradeForged = "upgrade with another checksum than the file's"
)

// planUpgrades has worker plugins in every second round; then f.whom of the first fault is 1.
func planUpgrades(r *rand.Rand, p *plan) {
	p.groups = r.IntN(3)
	worker := r.IntN(2)
	good := goodVersions[worker == 1]
	var bad []string
	for _, name := range []string{"exits", "hangs", "renamed", "worker-one", "crashes", "rejected", "slow", "worker-wrong", "worker-hangs", "worker-killed", "worker-refuses", "one"} {
		if badVersions[worker == 1][name] != "" {
			bad = append(bad, name)
		}
	}
	r.Shuffle(len(bad), func(i, j int) { bad[i], bad[j] = bad[j], bad[i] })
	for n := range 8 {
		f := fault{after: between(r, 10*time.Millisecond, 150*time.Millisecond), whom: worker}
		switch {
		case n == 3 || n == 6:
			f.arg, bad = bad[0], bad[1:]
			f.kind = upgradeBroken + f.arg
		case n == 4:
			f.kind, f.arg = upgradeForged, oneOf(r, good...)
		case r.IntN(3) == 0:
			f.kind, f.arg, f.long = upgradeStruck, oneOf(r, good...), between(r, 0, 250*time.Millisecond)
		default:
			f.kind, f.arg = upgraded, oneOf(r, good...)
		}
		p.add(f)
	}
}

// upgrades: whatever the next version is, no call is wrong or lost, and a broken one changes nothing.
func upgrades(r *round) error {
	worker := r.faults[0].whom == 1
	if err := r.become(goodVersions[worker][0]); err != nil {
		return err
	}
	engine, err := r.begin([]string{"WEIR_PLUGINS__OWN__PATH=" + r.link(), "WEIR_DEADLINES__START=2500ms"}, r.until())
	if err != nil {
		return err
	}
	var struck error
	for _, f := range r.faults {
		if struck == nil && r.sleep(f.after) {
			struck = r.upgrade(f, badVersions[worker][f.arg])
		}
	}
	if err := r.end(engine); err != nil {
		return err
	}
	return struck
}

func (r *round) link() string { return filepath.Join(r.own, "plugin") }

// become makes the plugin's path that of another version.
func (r *round) become(version string) error {
	next := r.link() + ".next"
	if err := os.Symlink(filepath.Join(r.bin, "versions", version), next); err != nil {
		return err
	}
	return os.Rename(next, r.link())
}

// upgrade makes the plugin another version. why is what the engine must say if that is broken.
func (r *round) upgrade(f fault, why string) error {
	at := time.Now()
	if err := r.become(f.arg); err != nil {
		return err
	}
	args := []string{"own"}
	if f.kind == upgradeForged {
		args, why = append(args, "--sha256", strings.Repeat("0", 64)), "checksum"
	}
	var killer sync.WaitGroup
	if f.kind == upgradeStruck {
		killer.Go(func() {
			r.sleep(f.long)
			if pid, err := r.target("version of the plugin", r.isVersion); err == nil {
				send(pid, syscall.SIGKILL)
			}
		})
	}
	said, err := r.reload(args...)
	for range 5 { // the process that was struck before may be missed only now, in a call
		if f.kind == upgradeStruck || err == nil || !strings.Contains(said.String(), "a worker was lost in a call") {
			break
		}
		r.sleep(100 * time.Millisecond) // until ranks have decided without it
		said, err = r.reload(args...)
	}
	killer.Wait()
	switch {
	case f.kind == upgradeStruck && err != nil:
		r.note(f, at, "the old one serves on or is started again")
	case f.kind == upgradeStruck || f.kind == upgraded && err == nil:
		r.note(f, at, "all ranks switch at one call")
	case why != "" && err != nil && strings.Contains(said.String(), why):
		r.note(f, at, "the old one serves on")
	default:
		return fmt.Errorf("%s: %w, want %q:\n%s", f.kind, err, why, said)
	}
	return nil
}

func (r *round) isVersion(p process) bool {
	return p.args[0] == r.link() || strings.HasPrefix(p.args[0], filepath.Join(r.bin, "versions")+"/")
}

const quarantined = "plugin killed until it is given up"

func planGivenUp(r *rand.Rand, p *plan) {
	p.groups = 1 + r.IntN(2)
	for range 4 {
		p.add(fault{kind: quarantined, after: between(r, 10*time.Millisecond, 100*time.Millisecond)})
	}
	p.add(fault{kind: planReloaded, after: between(r, 10*time.Millisecond, 100*time.Millisecond)})
	p.add(fault{kind: planKilled, after: between(r, 10*time.Millisecond, 100*time.Millisecond)})
}

// givenUp: a plugin that ends again and again is not started any more, until it is reloaded. New groups are served by
// another meanwhile.
func givenUp(r *round) error {
	kills := 0
	for _, f := range r.faults {
		if f.kind == quarantined {
			kills++
		}
	}
	env := append(r.workers("fine@"), "WEIR_CASCADE__ORDER=shm-flat,shm-twoshot,bad0", fmt.Sprintf("WEIR_RESTART__MOST=%d", kills-1))
	engine, err := r.begin(env, r.until())
	if err != nil {
		return err
	}
	struck := r.giveUp()
	if err := r.end(engine); err != nil {
		return err
	}
	return struck
}

var isGivenUp = regexp.MustCompile(`plugin is given up.* plugin=shm`)

func (r *round) giveUp() error {
	kills := 0
	for _, f := range r.faults {
		r.sleep(f.after)
		at := time.Now()
		outcome := "calls go on"
		switch f.kind {
		case planReloaded:
			if _, err := r.all.await(r.ctx, isGivenUp); err != nil {
				return err
			}
			if said, err := r.reload("shm"); err != nil {
				return fmt.Errorf("reload of a plugin that was given up: %w:\n%s", err, said)
			}
			outcome = "it serves again"
		default:
			if _, early := r.all.find(isGivenUp); early && f.kind == quarantined {
				return fmt.Errorf("it is given up after %d kills", kills)
			}
			if err := r.strike(r.shm, f, kill); err != nil {
				return err
			}
			kills++
		}
		r.note(f, at, outcome)
	}
	return nil
}
