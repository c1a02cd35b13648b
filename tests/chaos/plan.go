package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// plan is what a round will be. It follows from the seed and the round's number alone, never from what happens.
type plan struct {
	number   int
	scenario *scenario
	world    int
	groups   int // beside that of all ranks
	device   bool
	calls    uint64 // seed of the ranks' calls
	faults   []fault
}

// fault is one thing that is broken. A fault of the configuration is there from the start of its round.
type fault struct {
	kind  string
	after time.Duration // since the fault before, or since the ranks call
	whom  int           // rank, plugin or process
	long  time.Duration // how long it lasts, of one that passes
	arg   string        // the rest
	job   int           // in which job of the round
}

// scenario is a kind of round.
type scenario struct {
	name   string
	times  int  // in a deck of rounds
	device bool // needs the stand-ins for CUDA and NCCL
	plan   func(*rand.Rand, *plan)
	run    func(*round) error
}

// newPlan deals the scenarios like a deck of cards, so that every kind comes soon.
func newPlan(o options, number int) *plan {
	var deck []*scenario
	for _, s := range scenarios {
		for range s.times {
			if !s.device || o.devices {
				deck = append(deck, s)
			}
		}
	}
	dealt := rand.New(rand.NewPCG(o.seed, 1<<32+uint64((number-1)/len(deck)))).Perm(len(deck))
	r := rand.New(rand.NewPCG(o.seed, uint64(number)))
	p := &plan{number: number, scenario: deck[dealt[(number-1)%len(deck)]], calls: r.Uint64()}
	p.world = 2 + r.IntN(3)
	if r.IntN(4) == 0 {
		p.world = 5 + r.IntN(4)
	}
	p.scenario.plan(r, p)
	return p
}

func (p *plan) add(f fault) { p.faults = append(p.faults, f) }

func (p *plan) title() string {
	s := fmt.Sprintf("round %d: %s, %d ranks", p.number, p.scenario.name, p.world)
	if p.groups > 0 {
		s += fmt.Sprintf(", %d more groups", p.groups)
	}
	return s
}

func (p *plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, calls of seed %d\n", p.title(), p.calls)
	for _, f := range p.faults {
		fmt.Fprintf(&b, "  %s\n", f)
	}
	return b.String()
}

func (f fault) String() string {
	s := fmt.Sprintf("+%s %s (%d", f.after.Round(time.Millisecond), f.kind, f.whom)
	if f.long > 0 {
		s += fmt.Sprintf(", for %s", f.long.Round(time.Millisecond))
	}
	if f.arg != "" {
		s += ", " + f.arg
	}
	return s + ")"
}

// within is a random time below one.
func within(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(most)))
}

// between is a random time between two.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + within(r, most-least)
}

func oneOf[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }
