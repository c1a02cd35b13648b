package schedule

import (
	"fmt"
	"io"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/plan"
)

// Words is a step in words, such as "reduce out <- slot 0 of ranks 0..3, chunk 1, final".
func Words(t plan.Step) string {
	switch t.Kind {
	case plan.Signal:
		return fmt.Sprintf("give signal %d", t.Signal)
	case plan.Wait:
		words := fmt.Sprintf("wait for signal %d of rank %d", t.Signal, t.Rank)
		switch {
		case t.Lag == 1:
			words += ", 1 tile ago"
		case t.Lag > 1:
			words += fmt.Sprintf(", %d tiles ago", t.Lag)
		}
		return words
	}
	words := fmt.Sprintf("%s %s <- %s", t.Kind, place(t.Dst), strings.Join(places(t.Srcs), ", "))
	if t.Chunk != plan.AllChunks {
		words += fmt.Sprintf(", chunk %d", t.Chunk)
	}
	if t.Final {
		words += ", final"
	}
	return words
}

func place(p plan.Place) string {
	switch p.Where {
	case plan.In:
		return "in"
	case plan.Out:
		return "out"
	}
	return fmt.Sprintf("%s of rank %d", owned(p), p.Rank)
}

// owned is what a place is of its rank's.
func owned(p plan.Place) string {
	switch p.Where {
	case plan.PeerIn:
		return "in"
	case plan.PeerOut:
		return "out"
	}
	return fmt.Sprintf("slot %d", p.Slot)
}

// places takes the same place of three or more ranks in a row together.
func places(all []plan.Place) []string {
	var words []string
	for len(all) > 0 {
		n := 1
		next := all[0]
		for n < len(all) && next.Where != plan.In && next.Where != plan.Out {
			if next.Rank++; all[n] != next {
				break
			}
			n++
		}
		if n < 3 {
			n = 1
			words = append(words, place(all[0]))
		} else {
			words = append(words, fmt.Sprintf("%s of ranks %d..%d", owned(all[0]), all[0].Rank, all[n-1].Rank))
		}
		all = all[n:]
	}
	return words
}

// List writes the memory and the programs of a schedule as text.
func List(w io.Writer, title string, s *plan.Schedule) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s; %d bytes of shared memory in all\n", title, shape(s), s.SharedBytes())
	for rank, program := range s.Programs {
		fmt.Fprintf(&b, "\nrank %d, for every tile:\n", rank)
		for i, t := range program {
			fmt.Fprintf(&b, "%5d  %s\n", i, Words(t))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// shape is the memory that a schedule asks for, in words.
func shape(s *plan.Schedule) string {
	return fmt.Sprintf("tiles of up to %s in %s; each rank owns %s (in %s) and %s", size(s.TileBytes), plural(s.Chunks, "chunk"),
		plural(s.Slots, "slot"), plural(s.Buffers, "copy"), plural(s.Signals, "signal"))
}

// size is a byte count in the largest unit that divides it.
func size(bytes int64) string {
	switch {
	case bytes > 0 && bytes%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", bytes>>20)
	case bytes > 0 && bytes%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%d bytes", bytes)
}

func plural(n int, noun string) string {
	many := noun + "s"
	if stem, ok := strings.CutSuffix(noun, "y"); ok {
		many = stem + "ies"
	}
	return fmt.Sprintf("%d %s", n, lo.Ternary(n == 1, noun, many))
}
