package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"
)

// summary is what became of the rounds so far.
type summary struct {
	rounds, faults, failed int
	calls                  int // checked, of one rank of each round
	kinds                  map[string]*tally
	failover, toError      []time.Duration
	told                   time.Time
}

type tally struct{ faults, rounds, failed int }

func newSummary() *summary { return &summary{kinds: map[string]*tally{}} }

func (s *summary) add(r *round, err error) {
	s.rounds++
	s.faults += len(r.faults)
	s.calls += r.calls
	s.failover = append(s.failover, r.failovers...)
	if r.toError > 0 {
		s.toError = append(s.toError, r.toError)
	}
	seen := map[string]bool{}
	for _, f := range r.faults {
		t := s.kinds[f]
		if t == nil {
			t = &tally{}
			s.kinds[f] = t
		}
		t.faults++
		if !seen[f] {
			seen[f] = true
			t.rounds++
			if err != nil {
				t.failed++
			}
		}
	}
	if err != nil {
		s.failed++
	}
}

func (s *summary) print(w io.Writer, took time.Duration) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FAULT\tTIMES\tROUNDS\tROUNDS THAT WENT WRONG")
	for _, kind := range slices.Sorted(maps.Keys(s.kinds)) {
		k := s.kinds[kind]
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\n", kind, k.faults, k.rounds, k.failed)
	}
	_ = t.Flush()
	fmt.Fprintf(w, "\n%d rounds with %d faults in %s, %d went wrong; %d calls checked on every rank\n", s.rounds, s.faults, took.Round(time.Second), s.failed, s.calls)
	fmt.Fprintf(w, "a call went on with another backend: %s\n", quantiles(s.failover))
	fmt.Fprintf(w, "from a rank's end to the others' error: %s\n", quantiles(s.toError))
}

func quantiles(all []time.Duration) string {
	if len(all) == 0 {
		return "never"
	}
	slices.SortFunc(all, func(a, b time.Duration) int { return cmp.Compare(a, b) })
	at := func(q float64) time.Duration { return all[int(q*float64(len(all)-1))].Round(time.Millisecond) }
	return fmt.Sprintf("%d times, p50 %s, p99 %s", len(all), at(0.5), at(0.99))
}
