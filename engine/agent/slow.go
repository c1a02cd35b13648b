package agent

import (
	"fmt"
	"time"

	"github.com/weir-project/weir/engine/telemetry"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// lag is how far a rank is behind: the others wait for it in a call.
type lag struct {
	call  uint64    // that they wait in
	since time.Time // exact to rankv1.ClockEvery
}

// lagOf is how far a rank is behind; false if nobody waits for it. A rank that has not begun a call lags from when the first
// of the others began it. One that has begun it, in a call that others wait in, lags from when it was last seen to wait
// itself: it is stopped, or busy with its part. still is for how long a rank that waits may not have been seen to.
func lagOf(b *rankv1.Board, rank int, gone []bool, now time.Time, still time.Duration) (l lag, behind bool) {
	number := b.Number(rank)
	l.call = number
	waits := false // one of the others does, in the same call
	for peer := range gone {
		if peer == rank || gone[peer] {
			continue
		}
		if at, ok := b.Started(peer, number+1); ok {
			if l.call == number || at.Before(l.since) {
				l.call, l.since, behind = number+1, at, true
			}
		}
		waits = waits || b.Number(peer) == number && b.Done(peer) < number && now.Sub(b.Waited(peer)) < still
	}
	if behind {
		return l, true
	}
	if began, ok := b.Started(rank, number); ok && waits && b.Done(rank) < number {
		if l.since = began; b.Waited(rank).After(began) {
			l.since = b.Waited(rank)
		}
		return l, now.Sub(l.since) >= still
	}
	return lag{}, false
}

// slow is a rank that has been behind for longer than Options.SlowAfter.
type slow struct {
	lag
	last string        // that the rank did
	told time.Duration // lag when it was last logged
}

// slowAfter is the lag from which a rank is called slow: before its calls end at their deadline.
func (a *Agent) slowAfter() time.Duration { return min(a.opts.SlowAfter, a.opts.CallDeadline/2) }

// watchLag looks for slow ranks until the agent closes.
func (a *Agent) watchLag() {
	after := a.slowAfter()
	if after <= 0 {
		return
	}
	tick := time.NewTicker(max(after/8, rankv1.ClockEvery))
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			for _, g := range a.liveGroups() {
				g.mu.Lock()
				g.lookForSlow(now)
				g.mu.Unlock()
			}
		case <-a.done:
			return
		}
	}
}

// lookForSlow notes which ranks are slow now, and which are no longer. g.mu is held.
func (g *group) lookForSlow(now time.Time) {
	if g.closed || g.dead != "" {
		g.endSlow(now, "failed")
		return
	}
	for rank := range g.ranks {
		l, behind := lagOf(g.board, rank, g.gone, now, g.job.agent.slowAfter())
		s := g.slow[rank]
		switch took := now.Sub(l.since); {
		case g.gone[rank] || !behind || took < g.job.agent.slowAfter() || s != nil && s.call != l.call:
			g.goesOn(rank, now, "recovered")
		case s == nil:
			s = &slow{lag: l}
			g.slow[rank] = s
			fallthrough
		case took >= 2*s.told:
			s.last, s.told = g.board.Begun(rank).String(), took
			g.job.agent.opts.Logger.Warn("a rank is slow", "group", g.id, "rank", rank, "pid", g.facts.Ranks[rank].PID,
				"lag", took.Round(rankv1.ClockEvery), "call", s.call, "last", s.last)
		}
	}
}

// goesOn ends a rank's being slow, if it was. g.mu is held.
func (g *group) goesOn(rank int, now time.Time, outcome string) {
	s := g.slow[rank]
	if s == nil {
		return
	}
	delete(g.slow, rank)
	opts := g.job.agent.opts
	f := telemetry.SlowRank{Group: g.id, Rank: rank, Call: s.call, Last: s.last, Since: s.since, Lag: now.Sub(s.since), Outcome: outcome}
	opts.Logger.Info("a rank is slow no longer", "group", g.id, "rank", rank, "outcome", outcome, "lag", f.Lag.Round(rankv1.ClockEvery), "call", s.call)
	opts.Tracer.SlowRank(g.job.agent.background(), f)
	if opts.Meter != nil {
		opts.Meter.SlowRank(g.job.agent.background(), f)
	}
}

// endSlow is goesOn for all ranks. g.mu is held.
func (g *group) endSlow(now time.Time, outcome string) {
	for rank := range g.slow {
		g.goesOn(rank, now, outcome)
	}
}

// lagWords are the lag of a rank for people; "" if it is not slow. g.mu is held.
func (g *group) lagWords(rank int, now time.Time) (words string, seconds float64) {
	s := g.slow[rank]
	if s == nil {
		return "", 0
	}
	took := now.Sub(s.since).Round(rankv1.ClockEvery)
	return fmt.Sprintf("; the others have waited %s for it in all-reduce %d", took, s.call), took.Seconds()
}
