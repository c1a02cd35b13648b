package kernel_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/samber/lo"
)

// verdict is what a search has found.
type verdict struct {
	states int
	large  bool     // there are more states than a test should look at: the search was not finished
	wrong  string   // "" for nothing
	trace  []string // the shortest way there
}

func (v verdict) String() string {
	return fmt.Sprintf("%s (%d states), after\n  %s", v.wrong, v.states, strings.Join(v.trace, "\n  "))
}

const mostStates = 2_000_000

// check searches all states, nearest first, until one is wrong.
func check(m *model) verdict {
	first := m.first()
	index := map[string]bool{first.key(): true}
	parents, keys := []int{-1}, []string{first.key()}
	frontier := []*state{first}
	for at := 0; len(frontier) > 0; at++ {
		s := frontier[0]
		frontier[0], frontier = nil, frontier[1:]
		if s.control[0].fault&s.control[0].overlapped != 0 {
			continue // the plan is dead, and its user knows
		}
		steps := m.steps(s)
		if wrong := m.stuck(s, steps); wrong != "" {
			return verdict{states: len(keys), wrong: wrong, trace: m.retrace(keys, parents, at)}
		}
		if bad, ok := lo.Find(steps, func(st step) bool { return st.wrong != "" }); ok {
			return verdict{states: len(keys), wrong: bad.wrong, trace: append(m.retrace(keys, parents, at), bad.what())}
		}
		for _, st := range steps {
			k := st.to.key()
			if index[k] {
				continue
			}
			index[k] = true
			keys, parents = append(keys, k), append(parents, at)
			frontier = append(frontier, st.to)
		}
		if len(keys) > mostStates {
			return verdict{states: len(keys), large: true}
		}
	}
	return verdict{states: len(keys)}
}

// retrace repeats the way to a state, to say what happened on it.
func (m *model) retrace(keys []string, parents []int, at int) []string {
	var way []string
	for i := at; i >= 0; i = parents[i] {
		way = append(way, keys[i])
	}
	slices.Reverse(way)
	s, text := m.first(), []string{}
	for _, k := range way[1:] {
		for _, st := range m.steps(s) {
			if st.to.key() == k {
				s, text = st.to, append(text, st.what())
				break
			}
		}
	}
	return text
}

// stuck says what is wrong with a state by itself, most of all if nothing more can happen in it.
func (m *model) stuck(s *state, steps []step) string {
	for r, ctl := range s.control {
		if ctl.fault == 1 && ctl.overlapped == 0 {
			return fmt.Sprintf("rank %d reports two launches at once, which there were not", r)
		}
	}
	if len(steps) > 0 {
		return ""
	}
	return m.atRest(s)
}

func (m *model) atRest(s *state) string {
	waits := false
	for r := range s.control {
		for c := range m.calls {
			switch ended := m.ended(s, r, c); {
			case ended && m.odd != nil && m.odd[c] != m.calls[c]:
				return fmt.Sprintf("rank %d ends call %d, about which the ranks disagree", r, c)
			case !ended:
				waits = true
			}
		}
	}
	switch {
	case m.streams && m.mixed(s):
		return "two launches of rank 0 have run as one, and nobody noticed"
	case m.streams && s.control[0].busy != 0: // the next launch reports it
		return ""
	case waits && m.odd == nil && !m.streams:
		return "the ranks wait for ever"
	case !waits && lo.SomeBy(s.control, m.wrongSequence):
		return "a sequence is not that of the next call"
	}
	return ""
}

// mixed is whether rank 0's launches were not one after the other, in whatever order: then those of one launch have read
// one sequence, and no other launch has.
func (m *model) mixed(s *state) bool {
	seen := map[byte]bool{}
	return lo.SomeBy(lo.Range(len(m.calls)), func(c int) bool {
		mine := lo.Uniq(lo.FilterMap(m.blocksOf(s, 0, c), func(b block, _ int) (byte, bool) { return b.sequence, b.pc != notBegun && b.pc != faulted }))
		twice := lo.SomeBy(mine, func(q byte) bool { return seen[q] })
		for _, q := range mine {
			seen[q] = true
		}
		return twice || len(mine) > 1
	})
}

func (m *model) wrongSequence(c control) bool {
	return int(c.sequence) != (m.preset+len(m.calls))&(1<<m.wordBits-1) || c.entered != 0 || c.left != 0
}
