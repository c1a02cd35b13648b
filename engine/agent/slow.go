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

// place is what a look at the board shows of where one rank is in its calls.
type place struct {
	gone   bool
	number uint64    // call begun last
	done   uint64    // call ended last
	began  time.Time // when it began the former; zero for not known
	waited time.Time // last seen to wait for its peers; zero for never
	next   time.Time // when it began the call after the last of the rank that is looked at; zero if it has not
}

// placesFor is a look at the board for the sake of one rank.
func placesFor(b *rankv1.Board, rank int, gone []bool) []place {
	last := b.Number(rank)
	places := make([]place, len(gone))
	for r := range places {
		p := place{gone: gone[r], number: b.Number(r), done: b.Done(r), waited: b.Waited(r)}
		if r == rank {
			p.number = last // though it may have gone on
			p.began, _ = b.Started(r, last)
		} else {
			p.next, _ = b.Started(r, last+1)
		}
		places[r] = p
	}
	return places
}

// lagOf is how far a rank is behind; false if nobody waits for it. A rank that has not begun a call lags from when the first
// of the others began it. One that has begun it, in a call that others wait in, lags from when it was last seen to wait
// itself: it is stopped, or busy with its part. still is for how long a rank that waits may not have been seen to.
func lagOf(places []place, rank int, now time.Time, still time.Duration) (l lag, behind bool) {
	own := places[rank]
	l.call = own.number
	waits := false // one of the others does, in the same call
	for r, peer := range places {
		if r == rank || peer.gone {
			continue
		}
		if !peer.next.IsZero() && (!behind || peer.next.Before(l.since)) {
			l.call, l.since, behind = own.number+1, peer.next, true
		}
		waits = waits || peer.number == own.number && peer.done < own.number && now.Sub(peer.waited) < still
	}
	if behind {
		return l, true
	}
	if !own.began.IsZero() && waits && own.done < own.number {
		if l.since = own.began; own.waited.After(own.began) {
			l.since = own.waited
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

// judge says what a look at a rank's lag means for what was known of it: whether it is slow, and whether that is to be told now, for the
// first time or because the lag has doubled since. One that is slow in another call than before has gone on in between.
func judge(was *slow, l lag, behind bool, now time.Time, after time.Duration) (isSlow, tell bool) {
	took := now.Sub(l.since)
	if !behind || took < after || was != nil && was.call != l.call {
		return false, false
	}
	return true, was == nil || took >= 2*was.told
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
	after := g.job.agent.slowAfter()
	for rank := range g.ranks {
		l, behind := lagOf(placesFor(g.board, rank, g.gone), rank, now, after)
		isSlow, tell := judge(g.slow[rank], l, behind && !g.gone[rank], now, after)
		if !isSlow {
			g.goesOn(rank, now, "recovered")
			continue
		}
		if tell {
			s := g.slow[rank]
			if s == nil {
				s = &slow{lag: l}
				g.slow[rank] = s
			}
			s.last, s.told = g.board.Begun(rank).String(), now.Sub(l.since)
			g.job.agent.opts.Logger.Warn("a rank is slow", "group", g.id, "rank", rank, "pid", g.facts.Ranks[rank].PID,
				"lag", s.told.Round(rankv1.ClockEvery), "call", s.call, "last", s.last)
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
