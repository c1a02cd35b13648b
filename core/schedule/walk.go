package schedule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/plan"
)

// walk executes the steps of all ranks tile by tile, in one of the orders in which they may happen, and knows for each
// which others surely come before it (a vector clock).
type walk struct {
	s      *plan.Schedule
	tile   int       // in progress, from 1
	next   []int     // step that each rank comes to
	clocks [][]int32 // clocks[a][b] is how many events of rank b surely come before the next of rank a
	given  [][][]int32
	// given[t%len(given)][signal of a rank] is the clock with which the signal was first given in tile t; nil if not yet.
	// It reaches back as far as a wait does.
}

func newWalk(s *plan.Schedule) *walk {
	lag := 0
	for _, program := range s.Programs {
		for i := range program {
			lag = max(lag, program[i].Lag)
		}
	}
	n := len(s.Programs)
	return &walk{
		s: s, next: make([]int, n),
		clocks: lo.Times(n, func(int) []int32 { return make([]int32, n) }),
		given:  lo.Times(lag+1, func(int) [][]int32 { return make([][]int32, n*s.Signals) }),
	}
}

// count is how many events of its rank have happened when the event has.
func (w *walk) count(e Event) int32 {
	return int32((e.Tile-1)*len(w.s.Programs[e.Rank]) + e.Step + 1)
}

// event is the count-th event of a rank.
func (w *walk) event(rank int, count int32) Event {
	n := int32(len(w.s.Programs[rank]))
	return Event{Rank: rank, Tile: int((count-1)/n) + 1, Step: int((count - 1) % n)}
}

// runTile walks through the next tile and calls visit before each event. The error is a deadlock, or what visit returned.
func (w *walk) runTile(visit func(Event, *plan.Step) error) error {
	w.tile++
	clear(w.now(0))
	clear(w.next)
	for {
		progress, done := false, true
		for rank, program := range w.s.Programs {
			for w.next[rank] < len(program) {
				e := Event{Rank: rank, Step: w.next[rank], Tile: w.tile}
				ok, err := w.step(e, &program[e.Step], visit)
				if err != nil {
					return err
				}
				if !ok {
					done = false
					break
				}
				w.next[rank]++
				progress = true
			}
		}
		if done {
			return nil
		}
		if !progress {
			return w.deadlock()
		}
	}
}

// now is what was given so many tiles ago, by rank and signal.
func (w *walk) now(lag int) [][]int32 { return w.given[(w.tile-lag)%len(w.given)] }

// step executes one event; ok is false if it is a wait that does not end yet.
func (w *walk) step(e Event, t *plan.Step, visit func(Event, *plan.Step) error) (ok bool, err error) {
	clock := w.clocks[e.Rank]
	if t.Kind == plan.Wait && t.Lag < w.tile {
		signal := w.now(t.Lag)[t.Rank*w.s.Signals+t.Signal]
		if signal == nil {
			return false, nil
		}
		if err := visit(e, t); err != nil {
			return false, err
		}
		for i, v := range signal {
			clock[i] = max(clock[i], v)
		}
	} else if err := visit(e, t); err != nil {
		return false, err
	}
	clock[e.Rank] = w.count(e)
	if t.Kind == plan.Signal {
		if at := &w.now(0)[e.Rank*w.s.Signals+t.Signal]; *at == nil {
			*at = slices.Clone(clock)
		}
	}
	return true, nil
}

// gives is the first step in which a rank gives a signal; -1 if it never does.
func gives(s *plan.Schedule, rank, signal int) int {
	return slices.IndexFunc(s.Programs[rank], func(t plan.Step) bool { return t.Kind == plan.Signal && t.Signal == signal })
}

// unheard refuses a wait for a signal that nobody gives.
func unheard(s *plan.Schedule) error {
	first := lo.Times(len(s.Programs)*s.Signals, func(i int) int { return gives(s, i/s.Signals, i%s.Signals) })
	for rank, program := range s.Programs {
		for i, t := range program {
			if t.Kind == plan.Wait && first[t.Rank*s.Signals+t.Signal] < 0 {
				e := Event{Rank: rank, Step: i, Tile: t.Lag + 1}
				return refuse(s, e, nil, fmt.Sprintf("waits for ever: rank %d has no step that gives signal %d", t.Rank, t.Signal))
			}
		}
	}
	return nil
}

// deadlock says who waits for whom when nobody can go on. All who are stuck wait for one another, since a signal of an
// earlier tile has been given.
func (w *walk) deadlock() error {
	stuck := func(rank int) (Event, *plan.Step) {
		e := Event{Rank: rank, Step: w.next[rank], Tile: w.tile}
		return e, &w.s.Programs[rank][e.Step]
	}
	waiting := lo.Filter(lo.Range(len(w.next)), func(rank, _ int) bool { return w.next[rank] < len(w.s.Programs[rank]) })
	rank := waiting[0]
	for range waiting { // following them leads into the circle
		_, t := stuck(rank)
		rank = t.Rank
	}
	e, _ := stuck(rank)
	var others []Event
	var links []string
	for at := rank; ; {
		_, t := stuck(at)
		o, wait := stuck(t.Rank)
		links = append(links, fmt.Sprintf("rank %d gives signal %d only in step %d, after its step %d (%s)",
			o.Rank, t.Signal, gives(w.s, t.Rank, t.Signal), o.Step, Words(*wait)))
		if at = t.Rank; at == rank {
			break
		}
		others = append(others, o)
	}
	lines := lo.Map(waiting, func(r, _ int) string {
		o, t := stuck(r)
		return fmt.Sprintf("  rank %d stops in step %d (%s)", r, o.Step, Words(*t))
	})
	return refuse(w.s, e, others, "waits for ever: "+strings.Join(links, "; "), append([]string{"Nobody goes on:"}, lines...)...)
}
