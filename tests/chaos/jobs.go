package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/weir-project/weir/tests/await"
)

// The faults that a job does not survive. Every rank must hear of it, with the right words.
const (
	rankKilled  = "rank killed"
	rankStopped = "rank stopped"
	rankExits   = "rank ends without leaving"
	desync      = "ranks disagree about the "
)

const jobsInRound = 6

// planJobs has jobs follow one another under one agent. Each ends in a fault of a rank's, after some that it survives.
func planJobs(r *rand.Rand, p *plan) {
	worker := r.IntN(2) == 0 // then the arg of the first fault says so
	for job := range jobsInRound {
		for range 1 + r.IntN(3) {
			f := drawStrike(r, p, worker)
			f.job = job
			p.add(f)
		}
		f := drawEnd(r, p)
		f.job = job
		p.add(f)
	}
	if worker {
		p.faults[0].arg = "on workers"
	}
}

// planDeviceJobs is that with a library and nothing that it could not notice.
func planDeviceJobs(r *rand.Rand, p *plan) {
	p.device = true
	p.world = 2 + r.IntN(2)
	for job := range 3 {
		f := drawStrike(r, p, false)
		f.job = job
		p.add(f)
		f = drawEnd(r, p)
		if strings.HasPrefix(f.kind, desync) || f.kind == rankStopped {
			f.kind = rankKilled // the stand-in adds up whatever there is, and does a rank's part in the process that is stopped
		}
		f.job = job
		p.add(f)
	}
}

func drawEnd(r *rand.Rand, p *plan) fault {
	f := fault{kind: oneOf(r, rankKilled, rankKilled, rankKilled, rankStopped, rankExits, desync+"size", desync+"type", desync+"op"), whom: r.IntN(p.world)}
	f.after = between(r, 10*time.Millisecond, 200*time.Millisecond)
	return f
}

// fatalDeadline is group.deadline where ranks are stopped for good. A rank that is stopped while a class is decided has the
// deadline of that step, and the engine's grace.
const (
	fatalDeadline    = 1500 * time.Millisecond
	decisionDeadline = 3*time.Second + 5*time.Second
)

// jobs: the agent outlives jobs of which every rank hears why they ended, and holds no more after them than before.
func jobs(r *round) (err error) {
	a, err := r.startAgent()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	var before usage
	for job := range 1 + r.faults[len(r.faults)-1].job {
		if err := r.job(a, job); err != nil {
			return fmt.Errorf("job %d of the round: %w", job, err)
		}
		if job == 0 { // what an agent has once it has served
			if before, err = r.rests(a.pid()); err != nil {
				return fmt.Errorf("after job 0 of the round: %w", err)
			}
			before.shared = 0
			defer r.grow()()
		} else if err := r.settles(a.pid(), before); err != nil {
			return fmt.Errorf("after job %d of the round: %w", job, err)
		}
	}
	return nil
}

// job is one job: its faults in their order, the last of which ends it.
func (r *round) job(a *agent, job int) error {
	var last fault
	for _, f := range r.faults {
		if f.job == job {
			last = f
		}
	}
	var odd []string
	cue := filepath.Join(r.own, fmt.Sprintf("cue-%d", job)) // when there is this file a rank does something odd
	if kind, found := strings.CutPrefix(last.kind, desync); found {
		odd = append(odd, fmt.Sprintf("-other-%s=%d@%s", kind, last.whom, cue))
	} else if last.kind == rankExits {
		odd = append(odd, fmt.Sprintf("-exits=%d@%s", last.whom, cue))
	}
	members, err := r.join(a, append(odd, "-for=1m")...)
	if err != nil {
		return err
	}
	defer disband(members)
	if err := r.strikeAll(job); err != nil {
		return err
	}
	return r.last(members, last, cue)
}

var (
	namesEnd      = `rank %d \(process %d\) has ended|rank %[1]d ended during weir\.\w+`
	namesStopped  = regexp.MustCompile(`ranks? [\d, ]+ did not call .* within|ranks? [\d, ]+ did not begin all-reduce \d+|rank \d+ began all-reduce \d+ and did not finish its part within|rank \d+ did not report weir\.\w+ within`)
	namesDisagree = regexp.MustCompile(`ranks disagree about all-reduce \d+: ranks? [\d, ]+: .*; ranks? [\d, ]+: |ranks disagree: ranks? [\d, ]+ called .*, ranks? [\d, ]+ called `)
)

// last ends a job and holds every rank to hearing why, in time.
func (r *round) last(members []member, f fault, cue string) error {
	victim := members[f.whom]
	pattern, least, spared := namesDisagree, time.Duration(0), -1
	r.sleep(f.after)
	at := time.Now()
	switch f.kind {
	case rankKilled, orphanKilled:
		send(victim.pid(), syscall.SIGKILL)
	case rankStopped:
		send(victim.pid(), syscall.SIGSTOP)
		pattern, least = namesStopped, decisionDeadline
	default:
		if err := os.WriteFile(cue, nil, 0o600); err != nil {
			return err
		}
	}
	if f.kind == rankKilled || f.kind == rankExits || f.kind == orphanKilled {
		pattern, spared = regexp.MustCompile(fmt.Sprintf(namesEnd, f.whom, victim.pid())), f.whom
		if f.kind == rankExits { // it says nothing when
			<-victim.ended
			at = time.Now()
		}
	}
	limit := least + await.For(hearPatience)
	ctx, cancel := context.WithTimeoutCause(r.ctx, limit, fmt.Errorf("not within %s", limit))
	defer cancel()
	var errs []error
	for n, m := range members {
		if n == spared || f.kind == rankStopped && n == f.whom {
			continue
		}
		heard, err := m.said.await(ctx, pattern)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s, but rank %d: %w", f.kind, n, err))
		} else if f.kind == rankKilled {
			r.toError = append(r.toError, heard.at.Sub(at))
		}
	}
	send(victim.pid(), syscall.SIGCONT)
	if len(errs) > 0 {
		r.trace(members)
		return errors.Join(errs...)
	}
	r.note(f, at, lastOutcome(f.kind))
	return r.over(members)
}

// trace has an agent and ranks that hang say where they are.
func (r *round) trace(members []member) {
	for _, m := range members {
		send(m.pid(), syscall.SIGQUIT)
	}
	send(r.engine, syscall.SIGQUIT)
	r.sleep(time.Second)
}

// hearPatience is how long after the deadline, or at once, ranks may take to hear. What they do take is in
// the summary.
const hearPatience = 5 * time.Second

func lastOutcome(kind string) string {
	switch kind {
	case rankStopped:
		return "every other rank names it, after the deadline"
	case rankKilled, rankExits, orphanKilled:
		return "every other rank names it"
	}
	return "every rank is told who called what"
}

// over waits for the ends of a job's processes.
func (r *round) over(members []member) error {
	for n, m := range members {
		select {
		case <-m.ended:
		case <-time.After(2 * await.For(hearPatience)):
			return fmt.Errorf("rank %d has an error and does not end", n)
		}
	}
	return nil
}
