package agent

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/weir-project/weir/tests/require"
)

// The model of a worker that is lost in a call: an agent, a worker, three ranks and a second backend. A call of three tiles
// over two slots, and one of a single tile after it, so that slots are used again. Every order of steps is tried, with the
// worker stopping for good, being killed, closing its connection but working on, and the agent or one rank dying, after any of them. workerv1/record.go,
// sdk/internal/exec/worker.go, sdk/rank/worker.go, worker.go and asked.go do this; what they do in one atomic step is one here.
//
// Each tile of a call must be made once, by the same backend on every rank, and nobody may wait for ever.

const (
	foSlots = 2
	foTiles = 4 // of both calls
)

// foEnd is the last tile of each call.
var foEnd = [...]uint8{3, 4}

type failoverWorld struct {
	graph  bool // the last rank holds a graph, which it may launch at any time
	calm   bool // neither the agent nor a rank dies
	broken string
}

// What a rank is at.
const (
	fBetween uint8 = iota
	fInCall
	fAsking
	fRedoing
	fError
	fDead
)

// What has become of a tile: the upper half of its slot's word.
const (
	fDone uint8 = iota + 1
	fGivenUp
)

type failoverRank struct {
	pc, call     uint8
	given, taken uint8          // tiles handed over and looked at so far
	lost         uint8          // bits of tiles to be made again
	gone         bool           // has seen that the worker is gone
	table        uint8          // 1: the second backend serves
	made         [foTiles]uint8 // by which backend each tile is made: 1 or 2
}

type failoverState struct {
	ranks                     [modelRanks]failoverRank
	words                     [foSlots]struct{ tile, fate uint8 }
	out                       [foSlots]uint8 // tile in the output slot
	worker                    uint8          // working, stopped, gone
	closed                    bool           // its connection has ended, which the agent takes for the end, though it may work on
	tile                      uint8          // that the worker is at
	working, checked          bool           // it writes the output; broken: it has read the word
	giving, saw               uint8          // slots that the agent has given up, plus 1; broken: what it has read
	decided, agentDead        bool
	told, aborted, graphEnded bool
	deaths                    uint8
}

const (
	wServes uint8 = iota
	wStopped
	wGone
)

func foSlot(tile uint8) int { return int(tile-1) % foSlots }

// fate is workerv1.Memory.Fate.
func (s *failoverState) fate(tile uint8) uint8 {
	w := s.words[foSlot(tile)]
	switch {
	case w.tile > tile:
		return fDone
	case w.tile == tile || w.fate == fGivenUp:
		return w.fate
	}
	return 0
}

func (s *failoverState) here(what func(failoverRank) bool) bool {
	for _, r := range s.ranks {
		if !what(r) {
			return false
		}
	}
	return true
}

func (w failoverWorld) next(s failoverState) []modelMove[failoverState] {
	m := &moves[failoverState]{from: s}
	w.worker(s, m)
	if !s.agentDead {
		w.agent(s, m)
	}
	for rank := range s.ranks {
		m.by = rank + 1
		w.rank(s, rank, m)
	}
	for i := range m.all {
		w.canonical(&m.all[i].to)
	}
	return m.all
}

// canonical puts ranks that play the same part in order: what may happen does not depend on their numbers.
func (w failoverWorld) canonical(s *failoverState) {
	same := s.ranks[:]
	if w.graph {
		same = same[:modelRanks-1]
	}
	slices.SortFunc(same, failoverRank.compare)
}

func (r failoverRank) compare(o failoverRank) int {
	gone := func(r failoverRank) int {
		if r.gone {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(r.pc, o.pc), cmp.Compare(r.call, o.call), cmp.Compare(r.given, o.given), cmp.Compare(r.taken, o.taken),
		cmp.Compare(r.lost, o.lost), cmp.Compare(r.table, o.table), gone(r)-gone(o), slices.Compare(r.made[:], o.made[:]))
}

func (w failoverWorld) worker(s failoverState, m *moves[failoverState]) {
	if s.worker == wGone {
		return
	}
	m.chance("the worker ends", func(s *failoverState) string { s.worker = wGone; return "" })
	if s.worker == wStopped {
		return
	}
	m.chance("the worker stops for good", func(s *failoverState) string { s.worker = wStopped; return "" })
	if !s.closed {
		m.chance("the worker closes its connection and works on", func(s *failoverState) string { s.closed = true; return "" })
	}
	tile := s.tile + 1
	slot := foSlot(tile)
	come := 0
	for _, r := range s.ranks {
		if r.given >= tile {
			come++
		}
	}
	switch {
	case tile > foTiles:
	case !s.working && (come == modelRanks || w.broken == "the worker begins when one rank has come" && come > 0):
		m.add(fmt.Sprintf("the worker begins tile %d", tile), func(s *failoverState) string {
			s.working, s.out[slot] = true, tile
			if come < modelRanks {
				return "the worker reads a slot that is not filled"
			}
			return ""
		})
	case s.working && w.broken == "the worker stores without comparing" && !s.checked:
		if s.words[slot].fate != fGivenUp {
			m.add("the worker reads the word", func(s *failoverState) string { s.checked = true; return "" })
		}
	case s.working && (s.words[slot].fate != fGivenUp || s.checked):
		m.add(fmt.Sprintf("the worker completes tile %d", tile), func(s *failoverState) string {
			s.words[slot].tile, s.words[slot].fate = tile, fDone
			s.tile, s.working, s.checked = tile, false, false
			return ""
		})
	case s.working:
		m.add("the worker finds that it was given up", func(s *failoverState) string { s.worker = wGone; return "" })
	}
}

func (w failoverWorld) agent(s failoverState, m *moves[failoverState]) {
	if !w.calm {
		m.chance("the agent dies", func(s *failoverState) string { s.agentDead = true; return "" })
	}
	switch {
	case s.told && s.worker != wGone && w.broken != "the agent does not kill a worker that hangs":
		m.add("the agent kills the worker", func(s *failoverState) string { s.worker = wGone; return "" })
	case (s.worker == wGone || s.closed) && s.giving == 0:
		m.add("the agent sees that the worker is gone", func(s *failoverState) string { s.giving = 1; return "" })
	case s.giving > 0 && s.giving <= foSlots:
		w.giveUp(s, m)
	}
	if !s.decided && !s.aborted && s.here(func(r failoverRank) bool { return r.pc == fAsking }) {
		m.add("the agent decides without the worker", func(s *failoverState) string {
			s.decided = true
			s.graphEnded = w.broken == "drops what graphs hold too"
			return ""
		})
	}
}

// giveUp is workerv1.Memory.GiveUp for the next slot.
func (w failoverWorld) giveUp(s failoverState, m *moves[failoverState]) {
	slot := s.giving - 1
	give := func(s *failoverState, from uint8) {
		word := &s.words[slot]
		word.tile, word.fate = from+foSlots, fGivenUp
		if from == 0 {
			word.tile = slot + 1
		}
		if s.giving++; w.broken == "the agent gives up one slot" {
			s.giving = foSlots + 1
		}
	}
	switch {
	case w.broken != "the agent stores without comparing":
		m.add(fmt.Sprintf("the agent gives up slot %d", slot), func(s *failoverState) string { give(s, s.words[slot].tile); return "" })
	case s.saw == 0:
		m.add("the agent reads the word", func(s *failoverState) string { s.saw = 1 + s.words[slot].tile; return "" })
	default:
		m.add("the agent stores the word", func(s *failoverState) string { give(s, s.saw-1); s.saw = 0; return "" })
	}
}

func (w failoverWorld) rank(s failoverState, rank int, m *moves[failoverState]) {
	r := s.ranks[rank]
	on := func(what string, change func(*failoverState, *failoverRank) string) {
		m.add(what, func(s *failoverState) string { return change(s, &s.ranks[rank]) })
	}
	if w.graph && rank == modelRanks-1 && s.graphEnded && r.pc != fDead {
		m.chance("launches its graph", func(*failoverState) string { return "a graph's plan was dropped" })
	}
	if r.pc != fDead && r.pc != fError && s.deaths == 0 && !w.calm {
		m.chance("dies", func(s *failoverState) string { s.ranks[rank].pc = fDead; s.deaths++; return "" })
	}
	fail := func(what string) {
		on(what, func(s *failoverState, r *failoverRank) string { s.aborted = true; r.pc = fError; return "" })
	}
	behind := !s.here(func(p failoverRank) bool { return p.pc != fDead && p.pc != fError || p.call > r.call })
	switch r.pc {
	case fBetween:
		if int(r.call) < len(foEnd) {
			on("begins a call", func(_ *failoverState, r *failoverRank) string {
				r.pc, r.call = fInCall, r.call+1
				if first, last := r.tiles(); r.gone && r.table == 1 { // the table says so
					r.pc, r.given, r.taken, r.lost = fRedoing, last, last, bits(first, last)
				}
				return ""
			})
		}
	case fInCall, fAsking, fRedoing:
		switch {
		case s.aborted:
			on("finds that the group has failed", func(_ *failoverState, r *failoverRank) string { r.pc = fError; return "" })
			return
		case behind:
			fail("finds that a peer will not come")
			return
		}
		switch r.pc {
		case fInCall:
			w.inCall(s, r, on, fail)
		case fAsking:
			switch {
			case s.decided:
				on("gets the decision", func(_ *failoverState, r *failoverRank) string { r.pc, r.table = fRedoing, 1; return "" })
			case s.agentDead:
				fail("has nobody to decide")
			}
		case fRedoing:
			w.redoing(s, r, on)
		}
	}
}

// tiles are those of the rank's call.
func (r failoverRank) tiles() (first, last uint8) {
	first = 1
	if r.call > 1 {
		first = foEnd[r.call-2] + 1
	}
	return first, foEnd[r.call-1]
}

func bits(first, last uint8) (b uint8) {
	for t := first; t <= last; t++ {
		b |= 1 << t
	}
	return b
}

func (w failoverWorld) inCall(s failoverState, r failoverRank, on func(string, func(*failoverState, *failoverRank) string), fail func(string)) {
	_, last := r.tiles()
	ahead := uint8(foSlots)
	if w.broken == "a rank hands over more tiles than there are slots" {
		ahead++
	}
	if r.given < last && r.given < r.taken+ahead {
		on(fmt.Sprintf("hands over tile %d", r.given+1), func(_ *failoverState, r *failoverRank) string { r.given++; return "" })
	}
	if r.taken == last {
		on("has been through all tiles", func(s *failoverState, r *failoverRank) string {
			if r.pc = fBetween; r.lost != 0 {
				r.pc = fAsking
				if w.broken == "a rank makes the whole call again" {
					first, last := r.tiles()
					r.lost = bits(first, last)
				}
			}
			return ""
		})
		return
	}
	tile := r.taken + 1
	if tile > r.given {
		return
	}
	fate := s.fate(tile)
	if fate == 0 && w.broken == "a rank takes the worker's end for the tile's" && (s.worker == wGone || s.closed) {
		fate = fGivenUp
	}
	switch {
	case fate == fDone:
		on(fmt.Sprintf("takes tile %d", tile), func(s *failoverState, r *failoverRank) string {
			r.taken++
			r.made[tile-1] = 1
			if s.out[foSlot(tile)] != tile {
				return "a rank takes the output of another tile"
			}
			return w.same(s, tile)
		})
	case fate == fGivenUp:
		on(fmt.Sprintf("finds tile %d given up", tile), func(_ *failoverState, r *failoverRank) string {
			r.taken++
			r.lost |= 1 << tile
			r.gone = true
			return ""
		})
	case s.worker == wStopped && !s.agentDead && !s.told && s.here(func(p failoverRank) bool { return p.given >= tile }):
		on("tells the agent that the worker is overdue", func(s *failoverState, _ *failoverRank) string { s.told = true; return "" })
	case s.agentDead && s.worker != wServes && s.giving <= foSlots:
		fail("loses patience: nobody gives the tile up")
	}
}

// same reports tiles that ranks make by different backends.
func (w failoverWorld) same(s *failoverState, tile uint8) string {
	first := uint8(0)
	for _, r := range s.ranks {
		by := r.made[tile-1]
		if r.pc == fDead || by == 0 {
			continue
		}
		if first != 0 && by != first {
			return fmt.Sprintf("tile %d is made by two backends", tile)
		}
		first = by
	}
	return ""
}

// redoing is the second backend, which goes on when all ranks make the same tiles.
func (w failoverWorld) redoing(s failoverState, r failoverRank, on func(string, func(*failoverState, *failoverRank) string)) {
	together := s.here(func(p failoverRank) bool {
		return p.call > r.call || p.call == r.call && (p.pc == fRedoing || p.pc == fBetween)
	})
	if !together {
		return
	}
	on("makes what is left", func(s *failoverState, r *failoverRank) string {
		for _, p := range s.ranks {
			if p.call == r.call && p.pc == fRedoing && p.lost != r.lost {
				return "ranks make different tiles again"
			}
		}
		for t := uint8(1); t <= foTiles; t++ {
			if r.lost&(1<<t) == 0 {
				continue
			}
			if r.made[t-1] != 0 {
				return fmt.Sprintf("tile %d is made twice", t)
			}
			r.made[t-1] = 2
			if bad := w.same(s, t); bad != "" {
				return bad
			}
		}
		r.lost, r.pc = 0, fBetween
		return ""
	})
}

func (w failoverWorld) atRest(s failoverState) (end, bad string) {
	for rank, r := range s.ranks {
		if r.pc != fDead && r.pc != fError && (r.pc != fBetween || int(r.call) < len(foEnd)) {
			return "", fmt.Sprintf("rank %d waits for ever", rank)
		}
	}
	by := [3]int{}
	for _, r := range s.ranks {
		if r.pc == fDead || r.pc == fError {
			return "an error", ""
		}
		for _, b := range r.made {
			by[b]++
		}
	}
	switch {
	case by[0] > 0:
		return "", "a tile was never made"
	case by[2] == 0:
		return "all by the worker", ""
	case by[1] == 0:
		return "all by the second backend", ""
	}
	return "some by each", ""
}

func (w failoverWorld) explore() (int, string, []string, map[string]int) {
	return explore(failoverState{}, w.next, w.atRest)
}

// TestFailoverModel tries every order of steps of the loss of a worker.
func TestFailoverModel(t *testing.T) {
	require.Long(t)
	if raced {
		t.Skip("a model under the race detector")
	}
	states, wrong, trace, ends := failoverWorld{graph: true}.explore()
	wantModel(t, states, wrong, trace, ends, "all by the worker", "some by each", "all by the second backend", "an error")
}

// TestFailoverModelFindsFaults: a protocol with any of its rules left out goes wrong.
func TestFailoverModelFindsFaults(t *testing.T) {
	require.Long(t)
	if raced {
		t.Skip("a model under the race detector")
	}
	for rule, want := range map[string]string{
		"the worker begins when one rank has come":          "not filled",
		"the worker stores without comparing":               "waits for ever",
		"the agent stores without comparing":                "different tiles",
		"the agent gives up one slot":                       "waits for ever",
		"the agent does not kill a worker that hangs":       "waits for ever",
		"a rank hands over more tiles than there are slots": "another tile",
		"a rank takes the worker's end for the tile's":      "different tiles",
		"a rank makes the whole call again":                 "made twice",
		"drops what graphs hold too":                        "a graph's plan",
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			states, wrong, trace, _ := failoverWorld{graph: rule == "drops what graphs hold too", calm: true, broken: rule}.explore()
			wantFault(t, states, wrong, trace, want)
		})
	}
}
