package bench

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
)

// Head is what the lines above a table say.
type Head struct {
	Version string
	Spec    Spec
	World   int
	Host    string
	Cores   int
	PIDs    []int  // of the ranks; nil: not listed
	Backend string // pinned; "": the cascade chooses
}

// WriteHead writes the lines above a table, as nccl-tests does.
func WriteHead(w io.Writer, h Head, step string) {
	s := h.Spec
	iterations := fmt.Sprint(s.Iterations)
	if s.Iterations == 0 {
		iterations = fmt.Sprintf("for %g s", s.Seconds)
	}
	chosen := h.Backend
	if chosen == "" {
		chosen = "chosen by the cascade"
	}
	memory := map[collective.Memory]string{collective.Host: "host memory", collective.CUDA: "CUDA memory"}[s.Memory]
	if s.Launches > 0 {
		memory += fmt.Sprintf(", in graphs launched %d times", s.Launches)
	}
	fmt.Fprintf(w, "# weir %s bench: all-reduce in %s\n", h.Version, memory)
	fmt.Fprintf(w, "# ranks: %d cores: %d minBytes: %d maxBytes: %d step: %s warmup iters: %d iters: %s validation: %d\n",
		h.World, h.Cores, s.Sizes[0], s.Sizes[len(s.Sizes)-1], step, s.Warmup, iterations, s.Check)
	bound := ""
	if s.Bind {
		bound = ", ranks bound to cores"
	}
	fmt.Fprintf(w, "# backend: %s%s\n#\n", chosen, bound)
	if len(h.PIDs) > 0 {
		fmt.Fprintf(w, "# Using ranks\n")
		for rank, pid := range h.PIDs {
			fmt.Fprintf(w, "#  Rank %2d Pid %6d on %10s\n", rank, pid, h.Host)
		}
		fmt.Fprintf(w, "#\n")
	}
}

// WriteTitles writes the three lines above the rows of one backend.
func WriteTitles(w io.Writer) {
	fmt.Fprintf(w, "#%58s%s%s\n", "", center("out-of-place", 31), strings.TrimRight(center("in-place", 31), " "))
	column := fmt.Sprintf("  %7s %6s %6s %6s", "time", "algbw", "busbw", "#wrong")
	fmt.Fprintf(w, "#%11s %12s %8s %6s %6s%s%s  %s\n", "size", "count", "type", "redop", "root", column, column, "backend")
	units := fmt.Sprintf("  %7s %6s %6s", "(us)", "(GB/s)", "(GB/s)")
	fmt.Fprintf(w, "#%11s %12s %8s %6s %6s%s %6s%s\n", "(B)", "(elements)", "", "", "", units, "", units)
}

// WriteRow writes one size of one backend.
func WriteRow(w io.Writer, c Cell, world int) {
	row := rowStart(c) + column(c, c.OutOfPlace, world) + column(c, c.InPlace, world)
	if c.Backend == "" {
		row += "  - (no backend serves it)"
	} else {
		row += "  " + c.Backend
	}
	fmt.Fprintln(w, row)
}

// rowStart has a root of -1, as nccl-tests' all_reduce_perf prints it, so that what reads its columns reads these.
func rowStart(c Cell) string {
	return fmt.Sprintf("%12d %12d %8s %6s %6d", c.Bytes, c.Count, c.DataType, c.Op, -1)
}

func column(c Cell, x *Column, world int) string {
	if x == nil {
		return fmt.Sprintf("  %7s %6s %6s %6s", "-", "-", "-", "-")
	}
	wrong := "N/A"
	if x.Wrong >= 0 {
		wrong = fmt.Sprint(x.Wrong)
	}
	return fmt.Sprintf("  %7s %6s %6s %6s", Number(x.Time, 7), Number(AlgBW(c.Bytes, x.Time), 6), Number(BusBW(c.Bytes, x.Time, world), 6), wrong)
}

// Number writes v with as many decimals as fit the width, at most two from 1 on and three below.
func Number(v float64, width int) string {
	most := 2
	if v < 1 {
		most = 3
	}
	for d := most; d > 0; d-- {
		if s := fmt.Sprintf("%.*f", d, v); len(s) < width {
			return s
		}
	}
	return fmt.Sprintf("%.0f", v)
}

// WriteFoot writes the lines below a table.
func WriteFoot(w io.Writer, cells []Cell, world, check int) {
	if check > 0 {
		verdict := "OK"
		wrong := Wrong(cells)
		if wrong > 0 {
			verdict = "FAILED"
		}
		fmt.Fprintf(w, "# %-20s : %d %s\n", "Out of bounds values", wrong, verdict)
	}
	fmt.Fprintf(w, "# %-20s : %s\n#\n", "Avg bus bandwidth", Number(AverageBusBW(cells, world), 12))
}

// Comparison is the times of several backends at the same sizes.
type Comparison struct {
	Names  []string
	Cells  [][]Cell            // by backend; all have the same sizes in the same order
	Chosen func(c Cell) string // the backend that the cascade would choose
}

// Write writes one row for each size with the time of every backend; the lowest has an asterisk.
func (c Comparison) Write(w io.Writer) {
	width := 10
	for _, n := range c.Names {
		width = max(width, len(n)+1)
	}
	fmt.Fprintf(w, "#%11s %12s %8s %6s %6s", "size", "count", "type", "redop", "root")
	for _, n := range c.Names {
		fmt.Fprintf(w, "  %*s ", width, n)
	}
	fmt.Fprintf(w, "  cascade\n#%11s %12s %8s %6s %6s", "(B)", "(elements)", "", "", "")
	units := ""
	for range c.Names {
		units += fmt.Sprintf("  %*s ", width, "(us)")
	}
	fmt.Fprintln(w, strings.TrimRight(units, " "))
	for i := range c.Cells[0] {
		c.row(w, i, width)
	}
}

func (c Comparison) row(w io.Writer, i, width int) {
	best := -1
	for b := range c.Names {
		x := c.Cells[b][i].Best()
		if x != nil && x.Wrong <= 0 && (best < 0 || x.Time < c.Cells[best][i].Best().Time) {
			best = b
		}
	}
	var row strings.Builder
	row.WriteString(rowStart(c.Cells[0][i]))
	for b := range c.Names {
		text, mark := "-", " "
		if x := c.Cells[b][i].Best(); x != nil {
			text = Number(x.Time, 10)
			if x.Wrong > 0 {
				mark = "!"
			} else if b == best {
				mark = "*"
			}
		}
		fmt.Fprintf(&row, "  %*s%s", width, text, mark)
	}
	fmt.Fprintf(w, "%s  %s\n", row.String(), c.Chosen(c.Cells[0][i]))
}

// Memory is what one rank's process used at the end.
type Memory struct {
	Rank     int   `json:"rank"`
	Peak     int64 `json:"peak"`     // largest resident size, bytes
	Resident int64 `json:"resident"` // of it now
	Private  int64 `json:"private"`  // resident and of no file
	Shared   int64 `json:"shared"`   // mapped memory that the ranks share
	Buffers  int64 `json:"buffers"`  // the benchmark's own message buffers, part of the above
}

// WriteMemory writes one line for each rank.
func WriteMemory(w io.Writer, ranks []Memory) {
	fmt.Fprintf(w, "# %-6s%14s%14s%14s%14s%14s\n", "rank", "peak", "resident", "private", "shared", "buffers")
	for _, m := range ranks {
		fmt.Fprintf(w, "# %-6d%14s%14s%14s%14s%14s\n", m.Rank, mib(m.Peak), mib(m.Resident), mib(m.Private), mib(m.Shared), mib(m.Buffers))
	}
	fmt.Fprintln(w, "#")
}

// mib is a number of bytes that nobody counts singly.
func mib(bytes int64) string {
	if bytes < 1<<20 {
		return backend.Size(bytes &^ 1023)
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}

func center(s string, width int) string {
	left := (width - utf8.RuneCountInString(s)) / 2
	return strings.Repeat(" ", left) + s + strings.Repeat(" ", width-left-len(s))
}
