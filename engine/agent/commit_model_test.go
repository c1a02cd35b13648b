package agent

import (
	"fmt"
	"testing"

	"github.com/weir-project/weir/tests/require"
)

// The model of a decision that ranks wait for: an agent, three ranks, and a cascade of two backends of which the first may
// fail in any rank, in prepare or in its self-test. Every order of their steps is tried, with the agent, or one rank, dying after
// any of them, also between two sends of one message. asked.go, resolve.go, prepare.go, step.go and sdk/rank/decide.go do this.
//
// All ranks must come to the same: a plan that all of them have prepared and tried, or an error. Nobody may wait for ever.

type commitWorld struct {
	idle   bool // the last rank never asks: the others are told at the deadline
	graph  bool // the last rank holds a graph of a class that was decided before, which it may launch at any time
	broken string
}

// What a rank is at.
const (
	cIdle uint8 = iota
	cWaiting
	cTrying  // in the self-test, where it waits for its peers
	cRunning // the call, by the table
	cServed
	cFailed
	cDead
)

// What a rank has of a backend's plan.
const (
	cNothing uint8 = iota
	cPrepared
	cTested
)

// Messages; the backend is in the lowest bit.
const (
	cPrepare uint8 = (iota + 1) << 1
	cSelfTest
	cDiscard
	cCommit
	cRefuse
)

type commitRank struct {
	pc, table uint8
	inbox     [3]uint8
	has       [2]uint8
}

type commitState struct {
	ranks             [modelRanks]commitRank
	message, sent     uint8 // that the agent is sending, and to how many it has; 0 for none
	waits             uint8 // for reports on this message; 0 for none
	reported, refused uint8 // bits of ranks
	begun, over       bool  // the decision
	agentDead, failed bool  // failed: the word on the board
	graphEnded        bool
	deaths            uint8
}

func (s *commitState) all(pcs ...uint8) bool {
	for _, r := range s.ranks {
		found := false
		for _, pc := range pcs {
			found = found || r.pc == pc
		}
		if !found {
			return false
		}
	}
	return true
}

func (s *commitState) any(pc uint8) bool {
	for _, r := range s.ranks {
		if r.pc == pc {
			return true
		}
	}
	return false
}

// send begins to send a message to all ranks, whose reports count from then on.
func (s *commitState) send(m uint8) {
	s.message, s.sent, s.waits, s.reported, s.refused = m, 0, 0, 0, 0
	if m&^1 == cPrepare || m&^1 == cSelfTest {
		s.waits = m
	}
}

func (w commitWorld) next(s commitState) []modelMove[commitState] {
	m := &moves[commitState]{from: s}
	if !s.agentDead {
		w.agent(s, m)
	}
	for rank := range s.ranks {
		m.by = rank + 1
		w.rank(s, rank, m)
	}
	return m.all
}

func (w commitWorld) agent(s commitState, m *moves[commitState]) {
	m.chance("the agent dies", func(s *commitState) string { s.agentDead = true; return "" })
	switch {
	case s.failed || s.over && s.message == 0:
		return
	case s.any(cDead) && w.broken != "does not notice that a rank has ended":
		m.add("the agent finds a rank gone", func(s *commitState) string { s.failed = true; return "" })
		return
	case s.message != 0:
		to := s.sent
		m.add(fmt.Sprintf("the agent sends %d to rank %d", s.message, to), func(s *commitState) string {
			for i, x := range s.ranks[to].inbox {
				if x == 0 {
					s.ranks[to].inbox[i] = s.message
					break
				}
				if i == len(s.ranks[to].inbox)-1 {
					return "a rank has more messages than it can have"
				}
			}
			if s.sent++; s.sent == modelRanks {
				w.sentAll(s)
			}
			return ""
		})
		return
	case !s.begun:
		if s.all(cWaiting) || w.broken == "begins when one rank asks" && s.any(cWaiting) {
			m.add("the agent asks the first backend", func(s *commitState) string { s.begun = true; s.send(cPrepare); return "" })
		} else if s.any(cWaiting) {
			m.put(!w.idle, "the deadline to ask passes", func(s *commitState) string { s.failed = true; return "" })
		}
		return
	}
	backend, enough := s.waits&1, s.reported == everybody
	enough = enough || w.broken == "does not wait for all reports" && s.reported != 0
	switch {
	case s.waits != 0 && enough && s.refused != 0 && w.broken != "commits what failed in one rank":
		m.add("the agent drops the backend", func(s *commitState) string {
			s.graphEnded = s.graphEnded || w.broken == "drops what graphs hold too"
			s.send(cDiscard | backend)
			return ""
		})
	case s.waits != 0 && enough && s.waits&^1 == cPrepare:
		m.add("the agent has it tried", func(s *commitState) string { s.send(cSelfTest | backend); return "" })
	case s.waits != 0 && enough:
		m.add("the agent commits", func(s *commitState) string { s.send(cCommit | backend); return "" })
	}
	if s.waits != 0 && !enough {
		if w.broken == "goes on with the next backend when a step takes too long" && backend == 0 {
			m.chance("a step takes too long", func(s *commitState) string { s.send(cDiscard); return "" })
		} else {
			m.chance("a step takes too long", func(s *commitState) string { s.failed = true; return "" })
		}
	}
}

// sentAll is what the agent does when all have a message whose answer it does not wait for.
func (w commitWorld) sentAll(s *commitState) {
	sent := s.message
	s.message, s.sent = 0, 0
	switch sent &^ 1 {
	case cPrepare, cSelfTest:
		if w.broken == "has plans tried while they are prepared" && sent&^1 == cPrepare {
			s.send(cSelfTest | sent&1)
		}
	case cDiscard:
		if sent&1 == 0 {
			s.send(cPrepare | 1)
		} else {
			s.send(cRefuse)
		}
	default:
		s.over = true
	}
}

func (s *commitState) report(rank int, ok bool) {
	s.reported |= 1 << rank
	if !ok {
		s.refused |= 1 << rank
	}
}

func (w commitWorld) rank(s commitState, rank int, m *moves[commitState]) {
	r := s.ranks[rank]
	on := func(what string, change func(*commitState, *commitRank) string) {
		m.add(what, func(s *commitState) string { return change(s, &s.ranks[rank]) })
	}
	if w.graph && rank == modelRanks-1 && s.graphEnded && r.pc != cDead {
		m.chance("launches its graph", func(*commitState) string { return "a graph's plan was dropped" })
	}
	if r.pc != cDead && r.pc != cServed && r.pc != cFailed && s.deaths == 0 {
		m.chance("dies", func(s *commitState) string { s.ranks[rank].pc = cDead; s.deaths++; return "" })
	}
	fails := func(_ *commitState, r *commitRank) string { r.pc = cFailed; return "" }
	switch r.pc {
	case cIdle:
		if r.inbox[0] != 0 {
			on("drops a message that it did not ask for", func(_ *commitState, r *commitRank) string {
				copy(r.inbox[:], append(r.inbox[1:], 0))
				return ""
			})
		}
		if !w.idle || rank < modelRanks-1 {
			on("asks", func(_ *commitState, r *commitRank) string { r.pc = cWaiting; return "" })
		}
	case cWaiting:
		switch {
		case s.failed:
			on("finds that the group has failed", fails)
		case r.inbox[0] != 0:
			w.take(r.inbox[0], on)
		case s.agentDead && w.broken != "waits for an agent that has ended":
			on("finds the agent gone", fails)
		}
	case cTrying:
		w.try(s, r, rank, on)
	case cRunning:
		switch {
		case s.failed:
			on("finds that the group has failed", fails)
		case s.all(cRunning, cServed):
			on("ends its call", func(s *commitState, r *commitRank) string {
				for _, p := range s.ranks {
					if p.table != r.table {
						return "a call is made by two tables"
					}
				}
				r.pc = cServed
				return ""
			})
		case s.any(cDead) || s.any(cFailed):
			on("finds that a peer will not come", func(s *commitState, r *commitRank) string { s.failed = true; r.pc = cFailed; return "" })
		}
	}
}

// take is a rank's answer to a message.
func (w commitWorld) take(message uint8, on func(string, func(*commitState, *commitRank) string)) {
	backend := message & 1
	done := func(r *commitRank) { copy(r.inbox[:], append(r.inbox[1:], 0)) }
	index := func(s *commitState, r *commitRank) int {
		for i := range s.ranks {
			if r == &s.ranks[i] {
				return i
			}
		}
		return -1
	}
	switch message &^ 1 {
	case cPrepare:
		on(fmt.Sprintf("prepares backend %d", backend), func(s *commitState, r *commitRank) string {
			done(r)
			r.has[backend] = cPrepared
			s.report(index(s, r), true)
			return ""
		})
		if backend == 0 {
			on("cannot prepare backend 0", func(s *commitState, r *commitRank) string {
				done(r)
				s.report(index(s, r), false)
				if w.broken == "each rank falls back by itself" {
					r.table, r.pc = 1, cRunning
				}
				return ""
			})
		}
	case cSelfTest:
		on(fmt.Sprintf("begins to try backend %d", backend), func(s *commitState, r *commitRank) string {
			done(r)
			if r.has[backend] == cNothing {
				return "a rank is to try what it has not prepared"
			}
			for _, p := range s.ranks {
				if p.pc != cDead && p.has[backend] == cNothing {
					return "a plan is tried that a peer has not prepared"
				}
			}
			r.pc, r.table = cTrying, backend
			return ""
		})
	case cDiscard:
		on("drops what it has prepared", func(_ *commitState, r *commitRank) string { done(r); r.has[backend] = cNothing; return "" })
	case cCommit:
		on(fmt.Sprintf("gets backend %d", backend), func(s *commitState, r *commitRank) string {
			done(r)
			r.pc, r.table = cRunning, backend
			for _, p := range s.ranks {
				if p.pc != cDead && p.has[backend] != cTested {
					return "a plan is used that has not passed its self-test in all ranks"
				}
			}
			return ""
		})
	case cRefuse:
		on("is refused", func(_ *commitState, r *commitRank) string { done(r); r.pc = cFailed; return "" })
	}
}

// try is the self-test: nobody gets through it before all have come.
func (w commitWorld) try(s commitState, r commitRank, rank int, on func(string, func(*commitState, *commitRank) string)) {
	here := true
	for _, p := range s.ranks {
		here = here && (p.pc == cTrying && p.table == r.table || p.has[r.table] == cTested || s.refused != 0 && p.pc == cWaiting)
	}
	switch {
	case s.failed:
		on("leaves the self-test: the group has failed", func(_ *commitState, r *commitRank) string { r.pc = cFailed; return "" })
	case here:
		on("passes the self-test", func(s *commitState, r *commitRank) string {
			r.has[r.table], r.pc = cTested, cWaiting
			s.report(rank, true)
			return ""
		})
		if r.table == 0 {
			on("finds a wrong sum", func(s *commitState, r *commitRank) string {
				r.pc = cWaiting
				s.report(rank, false)
				return ""
			})
		}
	case s.agentDead && w.broken != "waits for an agent that has ended":
		on("leaves the self-test: the agent is gone", func(_ *commitState, r *commitRank) string { r.pc = cFailed; return "" })
	}
}

func (w commitWorld) atRest(s commitState) (end, bad string) {
	served := 0
	for rank, r := range s.ranks {
		switch r.pc {
		case cServed:
			served++
		case cFailed, cDead:
		case cIdle:
			if !w.idle {
				return "", fmt.Sprintf("rank %d does nothing", rank)
			}
		default:
			return "", fmt.Sprintf("rank %d waits for ever", rank)
		}
	}
	switch {
	case served == modelRanks:
		return fmt.Sprintf("all served by backend %d", s.ranks[0].table), ""
	case served > 0 && !s.failed && served+int(s.deaths) < modelRanks:
		return "", "some ranks ended the call, others never will"
	case served > 0: // by the data of all, of whom one then died
		return "an error on those that had not ended the call", ""
	}
	return "an error on all", ""
}

func (w commitWorld) explore() (int, string, []string, map[string]int) {
	return explore(commitState{}, w.next, w.atRest)
}

// TestCommitModel tries every order of steps of a decision.
func TestCommitModel(t *testing.T) {
	require.Long(t)
	if raced {
		t.Skip("a model under the race detector")
	}
	for name, c := range map[string]struct {
		w    commitWorld
		ends []string
	}{
		"late ranks":      {commitWorld{}, []string{"all served by backend 0", "all served by backend 1", "an error on all"}},
		"an idle rank":    {commitWorld{idle: true}, []string{"an error on all"}},
		"one has a graph": {commitWorld{graph: true}, []string{"all served by backend 0", "all served by backend 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states, wrong, trace, ends := c.w.explore()
			wantModel(t, states, wrong, trace, ends, c.ends...)
		})
	}
}

// TestCommitModelFindsFaults: a protocol with any of its rules left out goes wrong.
func TestCommitModelFindsFaults(t *testing.T) {
	require.Long(t)
	if raced {
		t.Skip("a model under the race detector")
	}
	for rule, want := range map[string]string{
		"begins when one rank asks":                                "waits for ever",
		"does not wait for all reports":                            "has not",
		"commits what failed in one rank":                          "has not",
		"has plans tried while they are prepared":                  "has not prepared",
		"does not notice that a rank has ended":                    "waits for ever",
		"waits for an agent that has ended":                        "waits for ever",
		"each rank falls back by itself":                           "waits for ever",
		"goes on with the next backend when a step takes too long": "has not prepared",
		"drops what graphs hold too":                               "a graph's plan",
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			states, wrong, trace, _ := commitWorld{graph: true, broken: rule}.explore()
			wantFault(t, states, wrong, trace, want)
		})
	}
}
