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
	seed                   uint64
	rounds, faults, failed int
	calls                  int // that ranks have checked
	kinds                  map[string]*tally
	failover, toError      []time.Duration
}

// tally is of one kind of fault.
type tally struct {
	times    int
	outcomes map[string]int
	rounds   int // that went wrong
}

func newSummary(seed uint64) *summary { return &summary{seed: seed, kinds: map[string]*tally{}} }

func (s *summary) add(r *round, err error) {
	s.rounds++
	s.faults += len(r.results)
	s.calls += r.calls
	s.failover = append(s.failover, r.failovers...)
	s.toError = append(s.toError, r.toError...)
	for _, x := range r.results {
		t := s.kinds[x.kind]
		if t == nil {
			t = &tally{outcomes: map[string]int{}}
			s.kinds[x.kind] = t
		}
		t.times++
		t.outcomes[x.outcome]++
		if err != nil {
			t.rounds++
		}
	}
	if err != nil {
		s.failed++
	}
}

func (s *summary) print(w io.Writer, took time.Duration) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FAULT\tTIMES\tOUTCOME\tTIMES\tIN ROUNDS THAT WENT WRONG")
	for _, kind := range slices.Sorted(maps.Keys(s.kinds)) {
		k := s.kinds[kind]
		name, times, bad := kind, fmt.Sprint(k.times), fmt.Sprint(k.rounds)
		for _, o := range slices.Sorted(maps.Keys(k.outcomes)) {
			fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\n", name, times, o, k.outcomes[o], bad)
			name, times, bad = "", "", ""
		}
	}
	_ = t.Flush()
	fmt.Fprintf(w, "\nseed %d: %d rounds with %d faults of %d kinds in %s, %d rounds went wrong\n", s.seed, s.rounds, s.faults, len(s.kinds), took.Round(time.Second), s.failed)
	fmt.Fprintf(w, "calls checked, each rank's counted: %d\n", s.calls)
	fmt.Fprintf(w, "a call went on with another backend: %s\n", quantiles(s.failover))
	fmt.Fprintf(w, "from a rank's death to the error of each other: %s\n", quantiles(s.toError))
}

func quantiles(all []time.Duration) string {
	if len(all) == 0 {
		return "never"
	}
	slices.SortFunc(all, func(a, b time.Duration) int { return cmp.Compare(a, b) })
	at := func(q float64) time.Duration { return all[int(q*float64(len(all)-1))].Round(time.Millisecond) }
	return fmt.Sprintf("%d times, p50 %s, p99 %s", len(all), at(0.5), at(0.99))
}
