package agent

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weir-project/weir/tests/require"
)

// The model of an upgrade: an agent, three ranks with a calling thread and a background goroutine each, and two backends.
// Every order of their steps is tried, with the agent dying, or giving up, after any of them. What switch.go, resolve.go and
// sdk/rank/gate.go do in one atomic step is one step here; a call's number may reach memory late.
//
// All calls of one number must be made by one table. No rank may wait for ever, nor need its deadline while the agent lives.
// What is ended must not be used: the old worker, the new plan of a class that was decided otherwise, a graph's plan.

const modelRanks = 3

// modelOptions are a world to try.
type modelOptions struct {
	calls  uint8 // that every rank makes; afterwards it is idle for ever
	margin uint8 // by which the gate is further off than it must be
	tested bool  // begins when all ranks have prepared and tested the plans
	worker bool  // the old backend is a worker, which may die in a call: the ranks have the class decided once more
	graph  bool  // the last rank holds a graph, which it may launch at any time
	broken string
}

// The tables of a class. Calls begin with the old one.
const (
	oldTable uint8 = iota
	newTable
	failoverTable
)

// Where a calling thread is.
const (
	between   uint8 = iota
	published       // has taken the group and stored its number
	held            // waits at the gate
	looked          // has read the turn's fate
	inRun           // waits for its peers in the plan
	asking          // found the worker gone, waits for a decision
	redoing         // makes the call by what was decided
)

// Where a background goroutine is.
const (
	free uint8 = iota
	gateSet
	busySeen
	tablesStored // holds the lock
)

// Messages to ranks.
const (
	msgPrepare uint8 = iota + 1 // prepare, self-test and stage
	msgGate
)

// What the agent does. It has sent what belongs to it.
const (
	preparing uint8 = iota
	gating
	committed
	abandoned
	dead
)

// The word on the board.
const (
	none uint8 = iota
	open
	yes
	no
)

type modelRank struct {
	pc, call, seen, gate, table, saw, bg, answer uint8
	busy, staged                                 bool
	inbox                                        uint8
}

type modelState struct {
	ranks                             [modelRanks]modelRank
	phase, gate, round, word          uint8
	answered, failed, begun, switched uint8 // bits of ranks, but begun
	oldEnded, freshEnded, graphEnded  bool
	workerDead, decided, groupFailed  bool
	done                              uint8    // last call that the old worker has completed
	made                              [4]uint8 // 1 + the table by which the call is made
}

type modelWorld struct{ modelOptions }

func (w modelWorld) first() modelState {
	var s modelState
	for r := range s.ranks {
		if s.ranks[r].inbox = msgPrepare; w.tested {
			s.ranks[r].inbox, s.ranks[r].staged, s.answered = 0, true, everybody
		}
	}
	return s
}

// next are all that may happen in a state. A rank at the gate that would find nothing new when it looks again does not go on.
func (w modelWorld) next(s modelState) []modelMove[modelState] {
	if s.groupFailed {
		return nil
	}
	m := &moves[modelState]{from: s, all: make([]modelMove[modelState], 0, 16)}
	w.agentSteps(s, m.put)
	for rank := range s.ranks {
		m.by = rank + 1
		w.threadSteps(s, rank, func(outside bool, what string, change func(*modelState, *modelRank) string) {
			m.put(outside, what, func(s *modelState) string { return change(s, &s.ranks[rank]) })
		})
		w.backgroundSteps(s, rank, func(what string, change func(*modelState, *modelRank)) {
			m.add(what, func(s *modelState) string { change(s, &s.ranks[rank]); return "" })
		})
	}
	looks := w.willLook(s)
	for i := range m.all {
		move := &m.all[i]
		move.to = w.canonical(move.to)
		move.outside = move.outside || !looks && (move.what == looksAgain || move.what == readsTurn)
	}
	return m.all
}

func (s *modelState) send(m uint8) {
	for r := range s.ranks {
		s.ranks[r].inbox = m // the agent has had the answer to the message before
	}
}

func (s *modelState) settleWord(fate uint8) bool {
	if s.word == open {
		s.word = fate
	}
	return s.word == fate
}

const everybody = 1<<modelRanks - 1

func (s *modelState) abandon() {
	s.settleWord(no)
	s.phase = abandoned // the ranks find out by the word
}

func (s *modelState) propose(margin uint8) {
	most := uint8(0)
	for _, r := range s.ranks {
		most = max(most, r.seen)
	}
	s.round++
	s.phase, s.word, s.gate, s.answered, s.begun = gating, open, most+margin+s.round*s.round, 0, 0
	s.send(msgGate)
}

func (w modelWorld) agentSteps(s modelState, add func(bool, string, func(*modelState) string)) {
	if s.phase == dead || s.phase == abandoned && !w.worker {
		return
	}
	add(true, "the agent dies", func(s *modelState) string { s.phase = dead; return "" })
	answered := s.answered == everybody || w.broken == "commits before all have answered" && s.answered != 0
	switch {
	case s.phase == preparing && s.failed != 0:
		add(false, "the agent gives up: a rank's self-test failed", func(s *modelState) string { s.abandon(); return "" })
	case s.phase == preparing && s.answered == everybody:
		add(false, "the agent proposes a gate", func(s *modelState) string { s.propose(w.margin); return "" })
	case s.phase == gating && answered && (s.begun < s.gate || w.broken == "does not compare the answers with the gate"):
		add(false, "the agent commits", func(s *modelState) string {
			if !s.settleWord(yes) {
				s.abandon()
				return ""
			}
			s.phase = committed
			s.oldEnded = w.broken == "ends the old worker at the commit"
			return ""
		})
	case s.phase == gating && answered:
		add(false, "the agent proposes a later gate", func(s *modelState) string { s.propose(w.margin); return "" })
	case s.phase == committed && !s.oldEnded && (s.switched == everybody || w.broken == "ends the old worker when one rank has switched" && s.switched != 0):
		add(false, "the agent ends the old worker", func(s *modelState) string {
			s.oldEnded = true
			for _, r := range s.ranks {
				if r.pc == inRun && r.table == oldTable {
					return "the old worker is ended in a call"
				}
			}
			return ""
		})
	}
	if s.phase == preparing || s.phase == gating {
		add(true, "the agent gives up", func(s *modelState) string { s.abandon(); return "" })
	}
	if w.worker && !s.decided && s.allIn(asking) {
		add(false, "the agent decides without the worker", func(s *modelState) string {
			if s.phase == preparing || s.phase == gating {
				s.abandon()
			}
			s.freshEnded = s.phase == committed
			s.decided = true
			return ""
		})
	}
}

func (s *modelState) allIn(pc uint8) bool {
	for _, r := range s.ranks {
		if r.pc != pc {
			return false
		}
	}
	return true
}

// here reports whether all ranks are at a call with a peer's data, or beyond it.
func (s *modelState) here(call, pc uint8) bool {
	for _, r := range s.ranks {
		if r.call < call || r.call == call && r.pc != pc && r.pc != between {
			return false
		}
	}
	return true
}

func (w modelWorld) threadSteps(s modelState, rank int, add func(bool, string, func(*modelState, *modelRank) string)) {
	r := s.ranks[rank]
	if r.seen < r.call {
		add(false, "its number reaches memory", func(_ *modelState, r *modelRank) string { r.seen = r.call; return "" })
	}
	if w.graph && rank == modelRanks-1 && r.pc == between && s.graphEnded {
		add(true, "launches its graph", func(*modelState, *modelRank) string { return "a graph's plan was ended" })
	}
	switch r.pc {
	case between:
		if r.call < w.calls {
			// Between the two who looks sees the same: a group that is taken, and the number before.
			add(false, "takes the group and publishes its number", func(_ *modelState, r *modelRank) string {
				r.pc, r.busy, r.seen = published, true, r.call
				r.call++
				return ""
			})
		}
	case published:
		add(false, "looks at the gate", func(s *modelState, r *modelRank) string {
			if r.pc = held; r.below(r.gate) {
				return r.run(s) // the tables change only when the gate is not above the call
			}
			return ""
		})
	case held:
		add(false, readsTurn, func(s *modelState, r *modelRank) string {
			r.saw, r.pc = s.word, looked
			if w.broken == "reads the gate before the turn" {
				r.saw = r.gate
			}
			return ""
		})
	case looked:
		w.atGate(s, r, add)
	default:
		w.inCall(s, r, add)
	}
}

func (r *modelRank) below(gate uint8) bool { return gate == 0 || r.call < gate }

// atGate is a rank that has read the turn's fate.
func (w modelWorld) atGate(s modelState, r modelRank, add func(bool, string, func(*modelState, *modelRank) string)) {
	gate, fate := r.gate, r.saw
	if w.broken == "reads the gate before the turn" {
		gate, fate = r.saw, s.word
	}
	goOn := func(what string) {
		add(false, what, func(s *modelState, r *modelRank) string { return r.run(s) })
	}
	switch {
	case r.below(gate):
		goOn("goes on, below the gate")
	case r.bg == tablesStored: // waits for the lock
	case r.gate == 0:
		goOn("goes on: the gate was opened")
	case fate == yes:
		add(false, "switches", func(s *modelState, r *modelRank) string {
			r.install(w, s)
			r.gate = 0
			return r.run(s)
		})
	case fate == no:
		add(false, "goes on: the turn was abandoned", func(s *modelState, r *modelRank) string { r.gate = 0; return r.run(s) })
	default:
		add(false, looksAgain, func(_ *modelState, r *modelRank) string { r.pc = held; return "" })
		lose := func(s *modelState, r *modelRank) string {
			if w.broken == "a rank that loses patience goes on by itself" {
				r.gate = 0
				return r.run(s)
			}
			s.settleWord(no)
			r.pc = held
			return ""
		}
		if s.phase == dead && w.broken != "a rank that finds the agent gone waits" {
			add(false, "finds the agent gone", lose)
		} else {
			add(true, "loses patience", lose)
		}
	}
}

// install has the staged table serve, if the class was not decided otherwise meanwhile.
func (r *modelRank) install(w modelWorld, s *modelState) {
	if r.staged {
		r.table, r.staged = newTable, false
		s.graphEnded = s.graphEnded || w.broken == "graphs' classes are switched too"
	}
	for i := range s.ranks {
		if r == &s.ranks[i] {
			s.switched |= 1 << i // the agent may hear of it at once; the sooner it does, the more it may do wrong
		}
	}
}

// run begins the plan of the rank's table.
func (r *modelRank) run(s *modelState) string {
	r.pc, r.saw = inRun, 0
	call, table := r.call, r.table
	switch {
	case s.made[call] != 0 && s.made[call] != 1+table:
		return fmt.Sprintf("call %d is made by two tables", call)
	case table == oldTable && s.oldEnded:
		return "a call is made by the old worker, which was ended"
	case table == newTable && s.freshEnded:
		return "a call is made by a plan that was dropped"
	}
	s.made[call] = 1 + table
	return ""
}

// inCall is a rank in a plan.
func (w modelWorld) inCall(s modelState, r modelRank, add func(bool, string, func(*modelState, *modelRank) string)) {
	end := func(s *modelState, r *modelRank) string {
		r.pc, r.busy, r.seen = between, false, r.call // who sees that the group is free sees the number too
		if r.call == w.calls || s.allDone(r.call) {
			s.decided = s.decided && !s.allDone(r.call)
		}
		return ""
	}
	byWorker := w.worker && r.table == oldTable
	switch {
	case r.pc == inRun && byWorker && s.done >= r.call:
		add(false, "ends its call", end)
	case r.pc == inRun && byWorker && s.workerDead:
		add(false, "finds the worker gone", func(_ *modelState, r *modelRank) string { r.pc = asking; return "" })
	case r.pc == inRun && byWorker:
		add(true, "loses the worker", func(s *modelState, _ *modelRank) string { s.workerDead = true; return "" })
		if s.here(r.call, inRun) {
			add(false, "sees the worker complete the call", func(s *modelState, r *modelRank) string { s.done = r.call; return "" })
		}
	case r.pc == inRun && s.here(r.call, inRun):
		add(false, "ends its call", end)
	case r.pc == asking && s.decided:
		add(false, "gets the decision", func(s *modelState, r *modelRank) string {
			r.pc, r.table = redoing, failoverTable
			if w.broken != "what is decided otherwise stays staged" {
				r.staged = false
			}
			return ""
		})
	case r.pc == asking && s.phase == dead:
		add(false, "has nobody to decide: the group fails", func(s *modelState, _ *modelRank) string { s.groupFailed = true; return "" })
	case r.pc == redoing && s.here(r.call, redoing):
		add(false, "ends its call", end)
	}
}

func (s *modelState) allDone(call uint8) bool {
	for _, r := range s.ranks {
		if r.call < call || r.call == call && r.pc != between {
			return false
		}
	}
	return true
}

func (w modelWorld) backgroundSteps(s modelState, rank int, add func(string, func(*modelState, *modelRank))) {
	r, bit := s.ranks[rank], uint8(1)<<rank
	switch r.bg {
	case gateSet:
		// First it looks whether the group is taken and then reads the number, which may have grown: that is only safer.
		add("answers", func(s *modelState, r *modelRank) {
			begun := r.seen + r.answer
			if r.busy && w.broken != "answers with the number that is visible" && w.broken != "sees whether the group is taken before it sets the gate" {
				begun++
			}
			s.answered |= bit
			s.begun = max(s.begun, begun)
			r.bg, r.answer = free, 0
		})
		return
	case busySeen: // broken: before the gate is set
		add("sets the gate", func(s *modelState, r *modelRank) { r.gate, r.bg = s.gate, gateSet })
		return
	case tablesStored:
		add("opens the gate", func(s *modelState, r *modelRank) {
			if w.broken == "opens the gate before the tables are there" {
				r.install(w, s)
			}
			r.gate, r.bg = 0, free
		})
		if w.broken == "opens the gate before the tables are there" && r.gate != 0 {
			add("opens the gate", func(_ *modelState, r *modelRank) { r.gate = 0 })
		}
		return
	}
	if m := r.inbox; m != 0 {
		take := func(_ *modelState, r *modelRank) { r.inbox = 0 }
		switch m {
		case msgPrepare:
			add("prepares", func(s *modelState, r *modelRank) { take(s, r); r.staged = true; s.answered |= bit })
			if rank == 0 {
				add("fails the self-test", func(s *modelState, r *modelRank) { take(s, r); s.answered |= bit; s.failed |= bit })
			}
		case msgGate:
			add("sets the gate", func(s *modelState, r *modelRank) {
				take(s, r)
				if w.broken == "sees whether the group is taken before it sets the gate" {
					r.bg = busySeen
					if r.busy {
						r.answer = 1
					}
					return
				}
				r.gate, r.bg = s.gate, gateSet
			})
		}
		return
	}
	ended := r.call
	if r.pc != between {
		ended--
	}
	switch {
	case r.gate != 0 && s.word == yes && ended+1 >= r.gate:
		add("stores the new tables", func(s *modelState, r *modelRank) {
			r.bg = tablesStored
			if w.broken != "opens the gate before the tables are there" {
				r.install(w, s)
			}
		})
	case r.gate != 0 && s.word == no:
		add("opens the gate", func(_ *modelState, r *modelRank) { r.gate = 0 })
	case s.phase == dead && (r.gate != 0 || r.staged) && s.word != yes && w.broken != "a rank that finds the agent gone waits":
		add("finds the agent gone", func(s *modelState, r *modelRank) {
			if s.word == none || s.settleWord(no) {
				r.staged, r.gate = false, 0
			}
		})
	}
}

// atRest says what is wrong with a state in which nothing goes on by itself.
func (w modelWorld) atRest(s modelState) (end, bad string) {
	for r, x := range s.ranks {
		if !s.groupFailed && (x.call < w.calls || x.pc != between) {
			return "", fmt.Sprintf("rank %d waits for ever in call %d", r, x.call)
		}
	}
	return fmt.Sprintf("word %d, group failed %v, made %v", s.word, s.groupFailed, s.made), ""
}

func (w modelWorld) explore() (int, string, []string, map[string]int) {
	return explore(w.first(), w.next, w.atRest)
}

// canonical puts ranks that play the same part in order: what may happen does not depend on their numbers.
func (w modelWorld) canonical(s modelState) modelState {
	if s.phase == abandoned || s.phase == dead && s.word != yes { // no staged table will ever serve
		for r := range s.ranks {
			s.ranks[r].staged = s.ranks[r].staged && s.word == open
		}
		s.round, s.answered, s.failed, s.begun = 0, 0, 0, 0
	}
	if s.phase == committed {
		s.round, s.answered, s.begun = 0, 0, 0
	}
	first, last := 0, modelRanks-1
	if !w.tested {
		first++ // whose self-test may fail
	}
	if w.graph {
		last-- // who holds it
	}
	for range modelRanks {
		for a := first; a < last; a++ {
			if b := a + 1; s.ranks[b].key() < s.ranks[a].key() {
				s.ranks[a], s.ranks[b] = s.ranks[b], s.ranks[a]
				for _, bits := range []*uint8{&s.answered, &s.failed, &s.switched} {
					*bits = *bits&^(1<<a|1<<b) | *bits&(1<<a)<<1 | *bits&(1<<b)>>1
				}
			}
		}
	}
	return s
}

// key tells ranks in different states apart.
func (r modelRank) key() uint64 {
	k := uint64(0)
	for _, v := range []uint8{r.pc, r.call, r.seen, r.gate, r.table, r.saw, r.bg, r.answer, r.inbox} {
		k = k<<5 | uint64(v)
	}
	for _, v := range []bool{r.busy, r.staged} {
		k <<= 1
		if v {
			k |= 1
		}
	}
	return k
}

const (
	looksAgain = "looks again"
	readsTurn  = "reads the turn"
)

// willLook reports whether a rank at the gate will find something new when it looks again.
func (w modelWorld) willLook(s modelState) bool {
	return slices.ContainsFunc(s.ranks[:], func(r modelRank) bool {
		return (r.pc == held || r.pc == looked) && (s.word != open || r.below(r.gate) || s.phase == dead && w.broken == "")
	})
}

var modelWorlds = map[string]modelOptions{
	"busy ranks":        {calls: 2, tested: true},
	"idle ranks":        {calls: 1, tested: true},
	"a self-test fails": {},
	"a worker dies":     {calls: 2, tested: true, margin: 1, worker: true},
	"a late gate":       {calls: 2, tested: true, margin: 1},
	"one holds a graph": {calls: 1, tested: true, graph: true},
}

const mostModelStates = 5_000_000

// TestSwitchModel tries every order of steps of an upgrade.
func TestSwitchModel(t *testing.T) {
	require.Long(t)
	if raced {
		t.Skip("a model under the race detector")
	}
	for name, o := range modelWorlds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states, wrong, trace, ends := modelWorld{o}.explore()
			wantModel(t, states, wrong, trace, ends)
			if o.calls > 0 && !o.worker && len(ends) < 3 { // all old, all new, or first old and then new
				t.Errorf("the model does little: %v", ends)
			}
		})
	}
}

// TestSwitchModelFindsFaults: a protocol with any of its rules left out goes wrong, and the search finds how.
func TestSwitchModelFindsFaults(t *testing.T) {
	require.Long(t)
	if raced {
		t.Skip("a model under the race detector")
	}
	busy, worker, graph := modelWorlds["busy ranks"], modelWorlds["a worker dies"], modelWorlds["one holds a graph"]
	for rule, c := range map[string]struct {
		in   modelOptions
		want string
	}{
		"does not compare the answers with the gate":              {busy, "made by two tables"},
		"commits before all have answered":                        {busy, "made by two tables"},
		"answers with the number that is visible":                 {busy, "made by two tables"},
		"sees whether the group is taken before it sets the gate": {busy, "made by two tables"},
		"reads the gate before the turn":                          {busy, "made by two tables"},
		"opens the gate before the tables are there":              {busy, "made by two tables"},
		"a rank that loses patience goes on by itself":            {busy, "made by two tables"},
		"a rank that finds the agent gone waits":                  {busy, "waits for ever"},
		"ends the old worker at the commit":                       {busy, "ended"},
		"ends the old worker when one rank has switched":          {busy, "ended"},
		"what is decided otherwise stays staged":                  {worker, "dropped"},
		"graphs' classes are switched too":                        {graph, "a graph's plan was ended"},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			o := c.in
			o.broken = rule
			states, wrong, trace, _ := modelWorld{o}.explore()
			wantFault(t, states, wrong, trace, c.want)
		})
	}
}
