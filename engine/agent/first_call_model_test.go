package agent

import (
	"fmt"
	"testing"

	"github.com/weir-project/weir/tests/require"
)

// The model of a group's first calls, from when a rank asks for a decision to when its call by the plan has ended: who is told what in which
// order, who takes it when, and which signal is given in which memory. The commit model has what may fail in a decision; this one has
// what happens to one that does not fail: several classes of a group one after another, where a rank asks for the next one while the
// agent still tells others of the last, and several groups at once, whose messages come over one connection and whose calls are
// made by threads of one process. Every order is tried, with the agent or one rank dying after any step.
//
// sdk/rank/session.go (receive, deliver, answer), decide.go, allreduce.go and engine/agent/asked.go, resolve.go and prepare.go do this.
// Nobody may wait for ever, a group may only fail if somebody has died, and no rank may have a signal of another call or plan.

type firstWorld struct {
	ranks, groups, classes int
	broken                 string
}

const (
	firstRanks, firstGroups, firstClasses = 3, 2, 2
	firstRoom                             = 2 // answers that a rank keeps for a caller; sdk/rank has some more
	firstWire                             = 8
)

// What a caller, a thread that makes the calls of one group, is at.
const (
	fIdle    uint8 = iota
	fDecide        // it has asked, and waits for messages
	fTrying        // it has given its signal in the self-test and waits for the peers'
	fDecided       // it has the decision
	fCalling       // it has given its signal of the call and waits for the peers'
	fServed        // all classes
	fFailed
)

// Messages, in the lower half of a byte; the upper one is the group.
const (
	fPrepare uint8 = iota + 1
	fSelfTest
	fCommit
	fDrop  // what was prepared
	fFault // the group has failed
)

type firstCaller struct {
	pc, class uint8
	queue     [firstRoom]uint8
	next      [firstClasses]uint8 // tile of the class's plan, from 1
	dead      bool                // the process knows that the group has failed
}

type firstRank struct {
	callers [firstGroups]firstCaller
	wire    [firstWire]uint8 // sent to it and not yet received
	dead    bool
}

// firstGroup is what the agent, and the memory that ranks share, have of a group.
type firstGroup struct {
	signals       [firstClasses][firstRanks]uint8
	asked         uint8 // who waits for the class
	class         uint8 // that is decided, or will be
	begun         bool
	message, sent uint8
	waits         bool // for reports on the message sent last
	last          uint8
	reported      uint8
	told          uint8 // of the failure
	failed, abort bool  // abort: the word on the board
	dropped       uint8 // plans that failed before the ranks were told of any
}

type firstState struct {
	ranks     [firstRanks]firstRank
	groups    [firstGroups]firstGroup
	agentDead bool
	deaths    uint8
}

func (w firstWorld) all() uint8 { return 1<<w.ranks - 1 }

// push adds to a queue; false if it has no room.
func push(q []uint8, m uint8) bool {
	for i, x := range q {
		if x == 0 {
			q[i] = m
			return true
		}
	}
	return false
}

func pop(q []uint8) { copy(q, append(q[1:len(q):len(q)], 0)) }

func (w firstWorld) next(s firstState) []modelMove[firstState] {
	m := &moves[firstState]{from: s}
	if !s.agentDead {
		m.chance("the agent dies", func(s *firstState) string { s.agentDead = true; return "" })
		for g := range w.groups {
			w.agent(s, g, m)
		}
	}
	for r := range w.ranks {
		m.by = r + 1
		if s.ranks[r].dead {
			continue
		}
		if s.deaths == 0 {
			m.chance("dies", func(s *firstState) string { s.ranks[r].dead = true; s.deaths++; return "" })
		}
		w.receive(s, r, m)
		for g := range w.groups {
			w.caller(s, r, g, m)
		}
	}
	return m.all
}

// agent is what the agent may do next for a group.
func (w firstWorld) agent(s firstState, g int, m *moves[firstState]) {
	x := s.groups[g]
	on := func(what string, change func(*firstState, *firstGroup) string) {
		m.add(fmt.Sprintf("the agent, for group %d, %s", g, what), func(s *firstState) string { return change(s, &s.groups[g]) })
	}
	tell := func(s *firstState, r int, message uint8) string {
		if !push(s.ranks[r].wire[:], uint8(g)<<4|message) {
			return "a rank is sent more than the model has room for"
		}
		return ""
	}
	switch {
	case x.failed:
		for r := range w.ranks {
			if x.told>>r&1 == 0 {
				on(fmt.Sprintf("tells rank %d of its failure", r), func(s *firstState, x *firstGroup) string {
					x.told |= 1 << r
					return tell(s, r, fFault)
				})
				return
			}
		}
	case x.abort || w.anyDead(s):
		on("finds that it has failed", func(_ *firstState, x *firstGroup) string { x.failed, x.abort = true, true; return "" })
	case x.message != 0:
		on(fmt.Sprintf("sends message %d to rank %d", x.message, x.sent), func(s *firstState, x *firstGroup) string {
			bad := tell(s, int(x.sent), x.message)
			if x.sent++; int(x.sent) == w.ranks {
				w.sentAll(x)
			}
			return bad
		})
	case x.last == fCommit && w.broken == "forgets who asked when it has told all":
		on("forgets who asked", func(_ *firstState, x *firstGroup) string {
			x.asked, x.class, x.last = 0, x.class+1, 0
			return ""
		})
	case !x.begun && x.asked == w.all():
		on("begins to decide", func(_ *firstState, x *firstGroup) string {
			x.begun = true
			x.send(fPrepare)
			if w.broken == "tells ranks of plans that none of them knew" {
				x.send(fDrop)
			}
			return ""
		})
	case x.waits && x.reported == w.all() && x.last == fPrepare:
		on("has the plan tried", func(_ *firstState, x *firstGroup) string { x.send(fSelfTest); return "" })
	case x.waits && x.reported == w.all():
		on("commits", func(_ *firstState, x *firstGroup) string {
			x.send(fCommit)
			x.begun, x.waits = false, false
			if w.broken != "forgets who asked when it has told all" {
				x.asked, x.class = 0, x.class+1
			}
			return ""
		})
	}
}

func (x *firstGroup) send(message uint8) {
	x.message, x.last, x.sent, x.reported, x.waits = message, message, 0, 0, message == fPrepare || message == fSelfTest
}

func (w firstWorld) sentAll(x *firstGroup) {
	was := x.message
	x.message, x.sent = 0, 0
	switch {
	case was == fDrop && x.dropped < firstRoom:
		x.dropped++
		x.send(fDrop)
	case was == fDrop:
		x.send(fPrepare)
	}
}

func (w firstWorld) anyDead(s firstState) bool {
	for r := range w.ranks {
		if s.ranks[r].dead {
			return true
		}
	}
	return false
}

// receive is the goroutine of a rank that takes messages from the connection.
func (w firstWorld) receive(s firstState, r int, m *moves[firstState]) {
	first := s.ranks[r].wire[0]
	if first == 0 {
		return
	}
	m.add(fmt.Sprintf("receives message %d of group %d", first&15, first>>4), func(s *firstState) string {
		x := &s.ranks[r]
		c := &x.callers[first>>4]
		pop(x.wire[:])
		switch {
		case first&15 == fFault:
			c.dead = true
		case c.pc == fServed || c.pc == fFailed:
		case !push(c.queue[:], first&15) && w.broken != "tells ranks of plans that none of them knew":
			return "a rank has no room for an answer"
		}
		return ""
	})
}

// caller is the thread of a rank that makes a group's calls.
func (w firstWorld) caller(s firstState, r, g int, m *moves[firstState]) {
	c, x := s.ranks[r].callers[g], s.groups[g]
	on := func(what string, change func(*firstCaller, *firstGroup) string) {
		m.add(fmt.Sprintf("of group %d %s", g, what), func(s *firstState) string { return change(&s.ranks[r].callers[g], &s.groups[g]) })
	}
	fails := func(c *firstCaller, _ *firstGroup) string { c.pc = fFailed; return "" }
	lost := s.agentDead && s.ranks[r].wire[0] == 0 // the end of the connection is read after what was sent
	switch c.pc {
	case fIdle:
		switch {
		case c.dead:
			on("finds that it has failed", fails)
		case s.agentDead:
			on("finds no agent", fails)
		default:
			on(fmt.Sprintf("asks for class %d", c.class), func(c *firstCaller, x *firstGroup) string {
				if x.asked>>r&1 == 1 || x.class != c.class {
					return "a rank asks before its last request has been answered"
				}
				c.pc, x.asked = fDecide, x.asked|1<<r
				return ""
			})
		}
	case fDecide:
		switch {
		case c.queue[0] != 0:
			w.take(r, c.queue[0], on)
		case c.dead && w.broken != "hears of no failure while it waits for a decision":
			on("finds that it has failed", fails)
		case lost:
			on("finds the agent gone", fails)
		}
	case fTrying:
		switch {
		case w.met(x, c):
			on("passes the self-test", func(c *firstCaller, x *firstGroup) string {
				c.next[c.class]++
				c.pc, x.reported = fDecide, x.reported|1<<r
				return ""
			})
		case x.abort || lost:
			on("leaves the self-test", fails)
		}
	case fDecided:
		on("gives its signal", func(c *firstCaller, x *firstGroup) string {
			c.pc = fCalling
			x.signals[c.class][r] = c.next[c.class]
			return ""
		})
	case fCalling:
		w.calling(s, r, g, on)
	}
}

// calling is a rank in its call, waiting for its peers. Its deadline does not count: it would end, as an error, what must not happen.
func (w firstWorld) calling(s firstState, r, g int, on func(string, func(*firstCaller, *firstGroup) string)) {
	c, x := s.ranks[r].callers[g], s.groups[g]
	gone := w.anyDead(s)
	for p := range w.ranks {
		gone = gone || s.ranks[p].callers[g].pc == fFailed
	}
	switch {
	case w.met(x, c):
		on("ends its call", func(c *firstCaller, _ *firstGroup) string {
			c.next[c.class]++
			c.class++
			if c.pc = fIdle; int(c.class) == w.classes {
				c.pc = fServed
			}
			return ""
		})
	case x.abort || c.dead:
		on("finds that it has failed", func(c *firstCaller, _ *firstGroup) string { c.pc = fFailed; return "" })
	case gone:
		on("finds that a peer will not come", func(c *firstCaller, x *firstGroup) string { c.pc, x.abort = fFailed, true; return "" })
	}
}

// met reports whether all peers have given the signal that a caller waits for.
func (w firstWorld) met(x firstGroup, c firstCaller) bool {
	for p := range w.ranks {
		if x.signals[c.class][p] < c.next[c.class] {
			return false
		}
	}
	return true
}

// take is a caller's answer to a message.
func (w firstWorld) take(r int, message uint8, on func(string, func(*firstCaller, *firstGroup) string)) {
	on(fmt.Sprintf("takes message %d", message), func(c *firstCaller, x *firstGroup) string {
		pop(c.queue[:])
		switch message {
		case fPrepare:
			c.next[c.class] = 1
			x.reported |= 1 << r
		case fSelfTest:
			if c.next[c.class] != 1 {
				return "a rank is to try what it has not prepared"
			}
			c.pc = fTrying
			x.signals[c.class][r] = 1
		case fCommit:
			if c.next[c.class] != 2 {
				return "a rank is to call by what it has not tried"
			}
			c.pc = fDecided
			if w.broken == "numbers tiles anew after the self-test" && r == 0 {
				c.next[c.class] = 1
			}
			if w.broken == "counts the self-test twice" && r == 0 {
				c.next[c.class] = 3
			}
		}
		return ""
	})
}

func (w firstWorld) atRest(s firstState) (end, bad string) {
	served := true
	for g := range w.groups {
		some, failed := false, false
		for r := range w.ranks {
			c := s.ranks[r].callers[g]
			switch {
			case s.ranks[r].dead:
				failed = true
			case c.pc == fServed:
				some = true
			case c.pc == fFailed:
				failed = true
			default:
				return "", fmt.Sprintf("rank %d waits for ever in group %d", r, g)
			}
		}
		if failed && s.deaths == 0 && !s.agentDead {
			return "", fmt.Sprintf("group %d has failed though nobody has died", g)
		}
		if some && failed && !s.groups[g].abort && s.deaths == 0 {
			return "", fmt.Sprintf("group %d is served on some ranks only", g)
		}
		served = served && !failed
	}
	if served {
		return "all served", ""
	}
	return "an error on those that had not been served", ""
}

func (w firstWorld) explore() (int, string, []string, map[string]int) {
	return explore(firstState{}, w.next, w.atRest)
}

// TestFirstCallModel tries every order of steps from a request for a decision to the end of the first calls.
func TestFirstCallModel(t *testing.T) {
	require.Long(t)
	if raced {
		t.Skip("a model under the race detector")
	}
	for name, w := range map[string]firstWorld{
		"three ranks":             {ranks: 3, groups: 1, classes: 1},
		"two classes, one by one": {ranks: 2, groups: 1, classes: 2},
		"two groups at once":      {ranks: 2, groups: 2, classes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states, wrong, trace, ends := w.explore()
			wantModel(t, states, wrong, trace, ends, "all served", "an error on those that had not been served")
		})
	}
}

// TestFirstCallModelFindsFaults: a protocol with any of its rules left out goes wrong.
func TestFirstCallModelFindsFaults(t *testing.T) {
	require.Long(t)
	if raced {
		t.Skip("a model under the race detector")
	}
	for rule, want := range map[string]string{
		"forgets who asked when it has told all":            "before its last request has been answered",
		"tells ranks of plans that none of them knew":       "waits for ever",
		"hears of no failure while it waits for a decision": "waits for ever",
		"numbers tiles anew after the self-test":            "waits for ever",
		"counts the self-test twice":                        "waits for ever",
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			states, wrong, trace, _ := firstWorld{ranks: 2, groups: 1, classes: 2, broken: rule}.explore()
			wantFault(t, states, wrong, trace, want)
		})
	}
}
