package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// modelMove is what may happen next in a model whose states are S. bad says what is wrong about it.
type modelMove[S comparable] struct {
	by        int // the rank that moves, from 1; 0 is the agent
	what, bad string
	to        S
	outside   bool // nothing that anybody may rely on to happen
}

func (m modelMove[S]) String() string {
	if m.by == 0 {
		return m.what
	}
	return fmt.Sprintf("rank %d %s", m.by-1, m.what)
}

// moves collects what may happen in a state.
type moves[S comparable] struct {
	from S
	by   int // as in modelMove
	all  []modelMove[S]
}

func (m *moves[S]) add(what string, change func(*S) (bad string)) { m.put(false, what, change) }

// chance adds what nobody may rely on: a death, a fault.
func (m *moves[S]) chance(what string, change func(*S) (bad string)) { m.put(true, what, change) }

func (m *moves[S]) put(outside bool, what string, change func(*S) string) {
	m.all = append(m.all, modelMove[S]{by: m.by, what: what, to: m.from, outside: outside})
	last := &m.all[len(m.all)-1]
	last.bad = change(&last.to)
}

// explore tries everything, the nearest first, and returns what is wrong with the way there, or nothing. atRest judges a
// state in which nothing goes on by itself, and names how it ended.
func explore[S comparable](first S, next func(S) []modelMove[S], atRest func(S) (end, bad string)) (states int, wrong string, trace []string, ends map[string]int) {
	type from struct{ at, move int }
	index, all, way := map[S]int{first: 0}, []S{first}, []from{{-1, 0}}
	ends = map[string]int{}
	retrace := func(at int) (lines []string) {
		for ; at > 0; at = way[at].at {
			lines = append(lines, next(all[way[at].at])[way[at].move].String())
		}
		slices.Reverse(lines)
		return lines
	}
	for at := 0; at < len(all); at++ {
		if at > mostModelStates {
			return at, "too many states", nil, ends
		}
		goesOn := false
		for n, m := range next(all[at]) {
			if m.bad != "" {
				return len(all), m.bad, append(retrace(at), m.String()), ends
			}
			goesOn = goesOn || !m.outside
			if _, known := index[m.to]; !known {
				index[m.to] = len(all)
				all, way = append(all, m.to), append(way, from{at, n})
			}
		}
		if !goesOn {
			end, bad := atRest(all[at])
			if bad != "" {
				return len(all), bad, retrace(at), ends
			}
			ends[end]++
		}
	}
	return len(all), "", nil, ends
}

// wantModel wants nothing wrong, and all of the ends to be reached.
func wantModel(t *testing.T, states int, wrong string, trace []string, ends map[string]int, want ...string) {
	t.Helper()
	t.Logf("%d states, ends in %v", states, ends)
	if wrong != "" {
		t.Errorf("%s after\n  %s", wrong, strings.Join(trace, "\n  "))
		return
	}
	for _, end := range want {
		if ends[end] == 0 {
			t.Errorf("the model never ends in %q", end)
		}
	}
}

// wantFault wants a broken protocol to be found out.
func wantFault(t *testing.T, states int, wrong string, trace []string, want string) {
	t.Helper()
	if !strings.Contains(wrong, want) {
		t.Errorf("found %q in %d states, want %q", wrong, states, want)
	}
	t.Logf("%s (%d states) after\n  %s", wrong, states, strings.Join(trace, "\n  "))
}
