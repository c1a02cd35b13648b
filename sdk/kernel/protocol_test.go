package kernel_test

import (
	"maps"
	"slices"
	"testing"
	"time"
)

// Calls of different sizes and grids. But for other their hashes are the same, as those of different calls can be.
var (
	small = call{packets: 1, grid: 1}
	large = call{packets: 2, grid: 2}
	long  = call{packets: 2, grid: 1}
	wide  = call{packets: 1, grid: 2} // a block has nothing to do
	empty = call{packets: 0, grid: 2}
	one   = call{packets: 1, grid: 1, twoShot: true} // of three ranks, two hear of each other by way of the third
	two   = call{packets: 2, grid: 1, twoShot: true}
	twos  = call{packets: 3, grid: 2, twoShot: true}
	other = call{packets: 2, grid: 2, hash: 1}
)

// world is a model of so many ranks at the end of a sequence word of three bits, of which the flag has two.
func world(ranks int, calls ...call) model {
	return model{ranks: ranks, calls: calls, wordBits: 3, flagBits: 2, preset: 6, windows: 1}
}

func (m model) with(change func(*model)) model {
	change(&m)
	return m
}

func lazily(m *model)            { m.lazy = true }
func streams(m *model)           { m.streams = true }
func oneID(m *model)             { m.oneID = true }
func packed(m *model)            { m.packed = true }
func breaks(r rule) func(*model) { return func(m *model) { m.broken = r } }

// worlds look at the protocol from different sides, each with as many states as a second or so allows.
var worlds = map[string]model{
	"flags come round":                  world(2, large, small, wide, small, large).with(lazily),
	"flags come round, packed":          world(2, large, small, wide, small, long).with(lazily).with(packed),
	"the window comes round":            world(2, large, small, small, small, small, small, small, small, large).with(func(m *model) { m.flagBits, m.windows = 3, 2 }),
	"calls of no elements":              world(2, large, empty, large, empty).with(lazily),
	"two-shot":                          world(2, twos, two, twos, two).with(lazily),
	"one-shot and two-shot":             world(2, large, two, large).with(lazily),
	"three ranks":                       world(3, small, wide, small, wide).with(lazily),
	"three ranks, two packets":          world(3, long, small, long),
	"three ranks, two blocks":           world(3, large, small, large),
	"three ranks, two blocks, packed":   world(3, large, small, long).with(packed),
	"three ranks, by way of one":        world(3, one, small, one).with(lazily),
	"three ranks, two-shot":             world(3, two, two, two),
	"three ranks, one- and two-shot":    world(3, two, long, two),
	"three ranks, two-shot, two blocks": world(3, twos, two, two),
	"two streams":                       world(2, wide, small).with(streams),
	"two streams, one block":            world(2, small, long, small).with(streams),
	"the last rank calls another size":  world(3, small, large).with(func(m *model) { m.odd = []call{small, other} }),
}

// TestProtocol holds that sums are exact and nobody waits for ever, in every order in which the steps can come.
func TestProtocol(t *testing.T) {
	if raced {
		t.Skip("a model under the race detector")
	}
	for _, name := range slices.Sorted(maps.Keys(worlds)) {
		t.Run(name, func(t *testing.T) {
			m, began := worlds[name], time.Now()
			v := check(&m)
			if v.wrong != "" || v.large {
				t.Fatal(v)
			}
			t.Logf("%d states, %v", v.states, time.Since(began).Round(time.Millisecond))
		})
	}
}

// TestProtocolNeedsItsRules drops one rule at a time, which must be found: no rule is there for nothing, and the checker
// can fail.
func TestProtocolNeedsItsRules(t *testing.T) {
	if raced {
		t.Skip("a model under the race detector")
	}
	for name, m := range map[string]model{
		"one inbox":                     world(2, small, small).with(breaks(twoInboxes)).with(lazily),
		"no clearing":                   world(2, large, small, small, small, large).with(breaks(clears)).with(lazily),
		"clears more slowly than flags": world(2, large, small, small, small, large).with(lazily).with(func(m *model) { m.windows = 3 }),
		"clears the other inbox":        world(2, large, small, small).with(breaks(clearsOwnParity)).with(lazily),
		"clears what the call uses":     world(2, small).with(breaks(spareUsed)).with(lazily),
		"a counter of each block's own": world(2, long, large, small).with(breaks(oneSequence)).with(lazily),
		"the first block out advances":  world(2, large, large).with(breaks(lastAdvances)).with(lazily),
		"busy is freed too early":       world(2, small, small).with(breaks(oneStore)).with(streams),
		"one id, tickets not checked":   world(2, small, small).with(breaks(ticketChecked)).with(streams).with(oneID),
		"counters are reset too late":   world(2, wide, small).with(breaks(resetFirst)).with(streams),
		"busy is not taken":             world(2, small, small).with(breaks(busyTaken)).with(streams),
		"an empty call takes no part":   world(2, small, empty, small).with(breaks(emptyTakesPart)).with(lazily),
		"stores outlive their launch":   world(2, large, small, small, small, large).with(breaks(storesEnd)).with(lazily),
		"data and flag in two stores":   world(2, small).with(breaks(onePacket)).with(lazily),
		"waits for the next rank only":  world(3, small, small, small).with(breaks(waitsForAll)),
		"no hash":                       world(2, large).with(breaks(hashDisagreement)).with(func(m *model) { m.odd = []call{other} }),
		"blocks that cannot all run":    world(2, large).with(lazily).with(func(m *model) { m.resident = 1 }),
	} {
		t.Run(name, func(t *testing.T) {
			v := check(&m)
			if v.wrong == "" {
				t.Fatalf("nothing found in %d states", v.states)
			}
			t.Log(v)
		})
	}
}

// TestProtocolLimits holds what the header says cannot be noticed: launches at once with the same id, as of a graph that was
// instantiated twice, if the first block of both is done before the second of either begins.
func TestProtocolLimits(t *testing.T) {
	if raced {
		t.Skip("a model under the race detector")
	}
	m := world(2, wide, wide).with(streams).with(oneID).with(func(m *model) { m.resident = 1 })
	v := check(&m)
	if v.wrong == "" {
		t.Fatalf("nothing found in %d states: the header says less than the protocol keeps", v.states)
	}
	t.Log(v)
}
