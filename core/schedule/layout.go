package schedule

import (
	"fmt"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/plan"
)

// box is one step of a rank in a drawing, or some waits in a row.
type box struct {
	rank   int
	kind   plan.StepKind
	final  bool
	lines  []string
	row    int
	waits  []plan.Step // kind Wait
	number int         // kind Signal: which
}

// boxes are the steps of every rank, by rank.
func boxes(s *plan.Schedule) [][]box {
	return lo.Map(s.Programs, func(program []plan.Step, rank int) []box {
		var all []box
		for i := 0; i < len(program); {
			n := 1
			for program[i].Kind == plan.Wait && i+n < len(program) && sameButRank(program[i], program[i+n]) {
				n++
			}
			all = append(all, boxOf(s, rank, i, program[i:i+n]))
			i += n
		}
		return all
	})
}

func sameButRank(a, b plan.Step) bool {
	return b.Kind == plan.Wait && a.Signal == b.Signal && a.Lag == b.Lag
}

func boxOf(s *plan.Schedule, rank, first int, steps []plan.Step) box {
	t := steps[0]
	b := box{rank: rank, kind: t.Kind, final: t.Final, number: t.Signal}
	head := fmt.Sprintf("%d · ", first)
	if len(steps) > 1 {
		head = fmt.Sprintf("%d–%d · ", first, first+len(steps)-1)
	}
	switch t.Kind {
	case plan.Signal:
		b.lines = []string{head + fmt.Sprintf("give signal %d", t.Signal)}
		return b
	case plan.Wait:
		b.waits = steps
		of := strings.Join(lo.Map(steps, func(t plan.Step, _ int) string { return fmt.Sprint(t.Rank) }), ", ")
		b.lines = append([]string{head + fmt.Sprintf("wait for signal %d", t.Signal)},
			wrap(lo.Ternary(len(steps) == 1, "of rank ", "of ranks ")+of)...)
		switch {
		case t.Lag == 1:
			b.lines = append(b.lines, "for the tile before")
		case t.Lag > 1:
			b.lines = append(b.lines, fmt.Sprintf("for the tile %d before", t.Lag))
		}
		return b
	}
	part := ""
	if s.Chunks > 1 {
		part = ", whole tile"
	}
	if t.Chunk != plan.AllChunks {
		part = fmt.Sprintf(", chunk %d", t.Chunk)
	}
	b.lines = append([]string{head + t.Kind.String() + part + lo.Ternary(t.Final, ", final", "")},
		wrap(fromOwn(rank, place(t.Dst))+" ← "+strings.Join(lo.Map(places(t.Srcs), func(w string, _ int) string { return fromOwn(rank, w) }), ", "))...)
	return b
}

// fromOwn calls a rank's own slot that.
func fromOwn(rank int, words string) string {
	if slot, ok := strings.CutSuffix(words, fmt.Sprintf(" of rank %d", rank)); ok {
		return "own " + slot
	}
	return words
}

// indent begins every line but the first.
const indent = "   "

// wrap breaks a line behind commas and arrows, where it gets long.
func wrap(words string) []string {
	const most = 30
	var lines []string
	line := ""
	for _, word := range strings.SplitAfter(strings.ReplaceAll(words, "← ", "←, "), ", ") {
		word = strings.ReplaceAll(word, "←, ", "← ")
		if line != "" && len([]rune(line+strings.TrimSpace(word))) > most {
			lines = append(lines, line)
			line = indent
		}
		line += word
	}
	return append(lines, line)
}

// arrange puts boxes into rows, so that within a rank steps go down and a wait is below the signals that it waits for.
// It returns the number of rows. The schedule must be free of deadlock.
func arrange(all [][]box) int {
	type key struct{ rank, signal int }
	given := map[key]int{} // row of the first
	next, row := make([]int, len(all)), make([]int, len(all))
	for progress := true; progress; {
		progress = false
		for rank, lane := range all {
			for next[rank] < len(lane) {
				b := &lane[next[rank]]
				at, ready := row[rank], true
				for _, w := range b.waits {
					from, ok := given[key{w.Rank, w.Signal}]
					ready = ready && (ok || w.Lag > 0)
					if w.Lag == 0 {
						at = max(at, from+1)
					}
				}
				if !ready {
					break
				}
				b.row, row[rank], progress = at, at+1, true
				if k := (key{rank, b.number}); b.kind == plan.Signal {
					if _, again := given[k]; !again {
						given[k] = at
					}
				}
				next[rank]++
			}
		}
	}
	return lo.Max(row)
}
