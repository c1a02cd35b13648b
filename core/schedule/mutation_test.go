package schedule_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
	"github.com/weir-project/weir/core/schedule/allreduce"
	"github.com/weir-project/weir/tests/require"
)

// lagged is flat with one copy of each slot: before writing it again, ranks wait until the tile before has been read.
func lagged(world int, tile int64) *plan.Schedule {
	shape := schedule.Shape{TileBytes: tile, Buffers: 1, Slots: 1, Signals: 2, Chunks: 1}
	s := schedule.Build(world, shape, func(r *schedule.Rank) {
		r.WaitAll(1)
		r.Copy(schedule.Slot(r.Rank, 0), schedule.In(), plan.AllChunks)
		r.Signal(0)
		r.WaitAll(0)
		r.ReduceFinal(schedule.Out(), r.Slots(0), plan.AllChunks)
		r.Signal(1)
	})
	for _, program := range s.Programs {
		for i := range world - 1 {
			program[i].Lag = 1
		}
	}
	return s
}

// chunkwise is lagged with chunks: a rank writes a chunk again when the others have read that chunk of the tile before.
// It is wrong: where a tile is longer than the one before, its first chunk lies over the other's second.
func chunkwise(world int, tile int64) *plan.Schedule {
	const chunks, filled = 2, 2
	shape := schedule.Shape{TileBytes: tile, Buffers: 1, Slots: 1, Signals: chunks + 1, Chunks: chunks}
	s := schedule.Build(world, shape, func(r *schedule.Rank) {
		for c := range chunks {
			r.WaitAll(c)
			r.Copy(schedule.Slot(r.Rank, 0), schedule.In(), c)
		}
		r.Signal(filled)
		r.WaitAll(filled)
		for c := range chunks {
			r.ReduceFinal(schedule.Out(), r.Slots(0), c)
			r.Signal(c)
		}
	})
	for _, program := range s.Programs {
		for i, t := range program {
			if t.Kind == plan.Wait && t.Signal != filled {
				program[i].Lag = 1
			}
		}
	}
	return s
}

// chain passes the sum from rank to rank; everyone copies it from the last. One copy of each slot is enough.
func chain(world int, tile int64) *plan.Schedule {
	shape := schedule.Shape{TileBytes: tile, Buffers: 1, Slots: 1, Signals: 1, Chunks: 1}
	return schedule.Build(world, shape, func(r *schedule.Rank) {
		mine, last := schedule.Slot(r.Rank, 0), world-1
		sum := []plan.Place{schedule.Slot(max(0, r.Rank-1), 0), schedule.In()}
		switch r.Rank {
		case 0:
			r.Copy(mine, schedule.In(), plan.AllChunks)
		case last:
			r.Wait(r.Rank-1, 0)
			r.ReduceFinal(mine, sum, plan.AllChunks)
		default:
			r.Wait(r.Rank-1, 0)
			r.Reduce(mine, sum, plan.AllChunks)
		}
		r.Signal(0)
		r.Wait(last, 0)
		r.Copy(schedule.Out(), schedule.Slot(last, 0), plan.AllChunks)
	})
}

var mutated = map[string]func(world int, tile int64) *plan.Schedule{
	"flat": allreduce.Flat, "two-shot": allreduce.TwoShot, "ring": allreduce.Ring, "doubling": allreduce.RecursiveDoubling,
	"tree": allreduce.Tree, "lagged": lagged, "chain": chain,
	"two-level": func(world int, tile int64) *plan.Schedule {
		node := []int{0, 0, 1}
		return allreduce.TwoLevel(node[3-world:], tile)
	},
	"direct": allreduce.Direct,
}

func clone(s *plan.Schedule) *plan.Schedule {
	c := *s
	c.Programs = slices.Clone(s.Programs)
	for i, program := range c.Programs {
		c.Programs[i] = slices.Clone(program)
		for j := range program {
			c.Programs[i][j].Srcs = slices.Clone(program[j].Srcs)
		}
	}
	return &c
}

// mutation is a small change of a schedule, on one rank or, where that can be said, on all.
type mutation struct {
	what  string
	apply func(*plan.Schedule)
}

// mutant is a changed schedule; what says how.
type mutant struct {
	what string
	s    *plan.Schedule
}

// mutants are the schedule with every small change that makes another schedule.
func mutants(s *plan.Schedule) []mutant {
	return lo.FilterMap(mutations(s), func(m mutation, _ int) (mutant, bool) { return m.of(s) })
}

// of applies a mutation; ok is false if it changes nothing or makes a malformed schedule.
func (m mutation) of(s *plan.Schedule) (changed mutant, ok bool) {
	c := clone(s)
	m.apply(c)
	return mutant{m.what, c}, c.Validate(len(c.Programs)) == nil && !reflect.DeepEqual(c, s)
}

func mutations(s *plan.Schedule) []mutation {
	all := []mutation{
		{"one copy less", func(m *plan.Schedule) { m.Buffers-- }},
		{"one copy more", func(m *plan.Schedule) { m.Buffers++ }},
		{"one chunk less", func(m *plan.Schedule) { m.Chunks-- }},
		{"one chunk more", func(m *plan.Schedule) { m.Chunks++ }},
	}
	for rank, program := range s.Programs {
		for i := range program {
			step := changes(s, program, i)
			for _, what := range slices.Sorted(maps.Keys(step)) {
				change := step[what]
				name := fmt.Sprintf("rank %d, step %d (%s): %s", rank, i, schedule.Words(program[i]), what)
				all = append(all, mutation{name, func(m *plan.Schedule) { m.Programs[rank] = change(m.Programs[rank]) }})
				if rank > 0 {
					continue
				}
				all = append(all, mutation{"all of " + name, func(m *plan.Schedule) {
					for r, p := range m.Programs {
						if i+1 < len(p) && like(p[i], program[i]) {
							m.Programs[r] = change(p)
						}
					}
				}})
			}
		}
	}
	return all
}

func like(a, b plan.Step) bool { return a.Kind == b.Kind && len(a.Srcs) == len(b.Srcs) }

type change = func([]plan.Step) []plan.Step

// changes are the small changes of one step.
func changes(s *plan.Schedule, program []plan.Step, i int) map[string]change {
	all := map[string]change{
		"dropped":    func(p []plan.Step) []plan.Step { return slices.Delete(p, i, i+1) },
		"done twice": func(p []plan.Step) []plan.Step { return slices.Insert(p, i, p[i]) },
	}
	if i+1 < len(program) {
		all["swapped with the next"] = func(p []plan.Step) []plan.Step { p[i], p[i+1] = p[i+1], p[i]; return p }
	}
	edit := func(what string, do func(*plan.Step)) {
		all[what] = func(p []plan.Step) []plan.Step { do(&p[i]); return p }
	}
	places := []plan.Place{schedule.In(), schedule.Out()}
	for rank := range s.Programs {
		for slot := range s.Slots {
			places = append(places, schedule.Slot(rank, slot))
		}
		if s.Direct() {
			places = append(places, schedule.PeerIn(rank), schedule.PeerOut(rank))
		}
	}
	switch t := program[i]; t.Kind {
	case plan.Signal, plan.Wait:
		for k := range s.Signals {
			edit(fmt.Sprintf("signal %d", k), func(t *plan.Step) { t.Signal = k })
		}
		if t.Kind == plan.Signal {
			break
		}
		for r := range s.Programs {
			edit(fmt.Sprintf("of rank %d", r), func(t *plan.Step) { t.Rank = r })
		}
		for lag := range 3 {
			edit(fmt.Sprintf("lag %d", lag), func(t *plan.Step) { t.Lag = lag })
		}
	default:
		edit("final or not", func(t *plan.Step) { t.Final = !t.Final })
		for c := range s.Chunks + 1 {
			edit(fmt.Sprintf("chunk %d", c-1), func(t *plan.Step) { t.Chunk = c - 1 })
		}
		for n, p := range places {
			edit(fmt.Sprintf("into place %d", n), func(t *plan.Step) { t.Dst = p })
			for j := range t.Srcs {
				edit(fmt.Sprintf("source %d is place %d", j, n), func(t *plan.Step) { t.Srcs[j] = p })
			}
			edit(fmt.Sprintf("place %d as well", n), func(t *plan.Step) { t.Srcs = append(t.Srcs, p); t.Kind = plan.Reduce })
		}
		for j := range t.Srcs {
			edit(fmt.Sprintf("without source %d", j), func(t *plan.Step) { t.Srcs = slices.Delete(t.Srcs, j, j+1) })
			edit(fmt.Sprintf("sources %d and 0 swapped", j), func(t *plan.Step) { t.Srcs[0], t.Srcs[j] = t.Srcs[j], t.Srcs[0] })
		}
	}
	return all
}

// wrong is what brute force finds.
func wrong(s *plan.Schedule) string {
	for _, view := range views(s) {
		for _, inPlace := range []bool{false, true} {
			if w := bruteForce(s, view, inPlace); w != "" {
				return fmt.Sprintf("%s (view %v, in place %t)", w, view, inPlace)
			}
		}
	}
	return ""
}

// TestMutants changes schedules in every small way. What the proof accepts must be right in every order in which it can be
// executed; what it refuses must be wrong in one.
func TestMutants(t *testing.T) {
	require.Long(t)
	total := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(mutated)) {
		for _, world := range []int{2, 3} {
			t.Run(fmt.Sprintf("%s/%d", name, world), func(t *testing.T) {
				s := mutated[name](world, 4096)
				if err := schedule.Prove(s); err != nil {
					t.Fatal(err)
				}
				all := mutants(s)
				counts := map[string]int{}
				for _, m := range all {
					judge(t, m, counts)
				}
				t.Logf("%d mutants: %v", len(all), counts)
				for k, n := range counts {
					total[k] += n
				}
			})
		}
	}
	t.Logf("in all: %v", total)
}

// TestMutantsOfMutants makes two or three changes at once, at random.
func TestMutantsOfMutants(t *testing.T) {
	require.Long(t)
	counts := map[string]int{}
	rng := rand.New(rand.NewPCG(1, 1))
	for _, name := range slices.Sorted(maps.Keys(mutated)) {
		for _, world := range []int{2, 3} {
			if name == "two-level" && world == 3 {
				continue // too many orders to try in a test
			}
			for range 40 {
				judge(t, severalChanges(mutant{name, mutated[name](world, 4096)}, rng), counts)
			}
		}
	}
	t.Logf("%v", counts)
}

func severalChanges(m mutant, rng *rand.Rand) mutant {
	for range 2 + rng.IntN(2) {
		all := mutations(m.s)
		for range 10 { // not all make another schedule
			if next, ok := all[rng.IntN(len(all))].of(m.s); ok {
				m = mutant{m.what + "; " + next.what, next.s}
				break
			}
		}
	}
	return m
}

// isRace matches what is said of accesses that are not in order.
var isRace = regexp.MustCompile("nothing orders the two$|may not have made the call by then|may be over by then")

func judge(t *testing.T, m mutant, counts map[string]int) {
	t.Helper()
	err := schedule.Prove(m.s)
	bad := wrong(m.s)
	var refused *schedule.Refused
	switch {
	case err == nil && bad != "":
		t.Errorf("%s: accepted, but %s", m.what, bad)
	case err == nil:
		counts["harmless"]++
	case !errors.As(err, &refused):
		t.Errorf("%s: %v", m.what, err)
	case bad == "" && isRace.MatchString(refused.Problem):
		counts["races for data that nobody uses"]++ // refused all the same, since a race is one
	case bad == "":
		t.Errorf("%s: nothing goes wrong, but refused: %s", m.what, err)
	default:
		counts["caught"]++
	}
}

// TestChunksMove: what is right for tiles of equal length may be wrong where they differ.
func TestChunksMove(t *testing.T) {
	for _, world := range []int{2, 3} {
		s := chunkwise(world, 4096)
		for _, v := range views(s) {
			back := v[0] > v[len(v)-1]
			if bad := bruteForce(s, v, false); (bad != "") != back {
				t.Errorf("%d ranks, chunks %v: %q", world, v, bad)
			}
		}
		var refused *schedule.Refused
		if err := schedule.Prove(s); !errors.As(err, &refused) {
			t.Errorf("%d ranks: got %v, want it refused", world, err)
		}
	}
}
