package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/engine/bench"
)

// document is the file that a run leaves.
type document struct {
	GPU    string    `json:"gpu"`
	Ranks  int       `json:"ranks"`
	Driver string    `json:"driver"`
	Torch  string    `json:"torch"`
	NCCL   string    `json:"nccl"` // the version that PyTorch brings
	Type   string    `json:"type"`
	NoP2P  bool      `json:"no_p2p,omitempty"`
	Start  time.Time `json:"start"`
	End    time.Time `json:"end"`
	Rows   []row     `json:"rows"`
}

// order is that of the columns; a backend that is not in it comes before PyTorch's.
var order = []string{direct, "nccl", "nccl-symm", "oneshot", "twoshot", "hoststaged", torchOneShot, torchTwoShot, cascade}

func (d document) columns(mode string) []string {
	seen := lo.Uniq(lo.FilterMap(d.Rows, func(r row, _ int) (string, bool) { return r.Column, r.Mode == mode }))
	known := lo.Filter(order, func(c string, _ int) bool { return slices.Contains(seen, c) })
	others := lo.Without(seen, order...)
	slices.Sort(others)
	at := slices.IndexFunc(known, func(c string) bool { return slices.Contains([]string{torchOneShot, torchTwoShot, cascade}, c) })
	return slices.Insert(known, lo.Ternary(at < 0, len(known), at), others...)
}

// time is the median over all passes of the median trial, in µs; 0 if there is none.
func (d document) time(mode, column string, size int64) float64 {
	all := lo.FilterMap(d.Rows, func(r row, _ int) (float64, bool) {
		return bench.Median(r.Trials), r.Mode == mode && r.Column == column && r.Bytes == size
	})
	if len(all) == 0 {
		return 0
	}
	return bench.Median(all)
}

// ratio is the median over the passes of one column's time divided by another's in the same pass; 0 if there is none.
func (d document) ratio(mode, above, below string, size int64) float64 {
	of := func(column string, pass int) (float64, bool) {
		r, ok := lo.Find(d.Rows, func(r row) bool { return r.Mode == mode && r.Column == column && r.Bytes == size && r.Pass == pass })
		return bench.Median(r.Trials), ok
	}
	var all []float64
	for _, pass := range lo.Uniq(lo.Map(d.Rows, func(r row, _ int) int { return r.Pass })) {
		a, ok1 := of(above, pass)
		b, ok2 := of(below, pass)
		if ok1 && ok2 {
			all = append(all, a/b)
		}
	}
	if len(all) == 0 {
		return 0
	}
	return bench.Median(all)
}

func (d document) served(mode string, size int64) string {
	return strings.Join(lo.Uniq(lo.FilterMap(d.Rows, func(r row, _ int) (string, bool) {
		return r.Served, r.Mode == mode && r.Column == cascade && r.Bytes == size
	})), ", ")
}

// write prints a table for each mode.
func (d document) write(w io.Writer) {
	passes := len(lo.Uniq(lo.Map(d.Rows, func(r row, _ int) int { return r.Pass })))
	fmt.Fprintf(w, "%d × %s%s, driver %s, PyTorch %s, NCCL %s, %s, %d passes, %s to %s\n", d.Ranks, d.GPU, lo.Ternary(d.NoP2P, ", without P2P", ""),
		d.Driver, d.Torch, d.NCCL, d.Type, passes, d.Start.UTC().Format(time.DateTime), d.End.UTC().Format(time.TimeOnly))
	for _, mode := range []string{"graph", "eager"} {
		if columns := d.columns(mode); len(columns) > 0 {
			d.writeMode(w, mode, columns)
		}
	}
}

func (d document) writeMode(w io.Writer, mode string, columns []string) {
	head := append(slices.Clone(columns), "served by", "NCCL ÷ cascade", "nccl ÷ NCCL")
	fmt.Fprintf(w, "\n| %s, µs | %s |\n|%s\n", mode, strings.Join(head, " | "), strings.Repeat(" --- |", len(head)+1))
	for _, size := range d.sizes() {
		cells := lo.Map(columns, func(c string, _ int) string { return figure(d.time(mode, c, size)) })
		cells = append(cells, d.served(mode, size), factor(d.ratio(mode, direct, cascade, size)), factor(d.ratio(mode, "nccl", direct, size)))
		fmt.Fprintf(w, "| %s | %s |\n", backend.Size(size), strings.Join(cells, " | "))
	}
}

func (d document) sizes() []int64 {
	all := lo.Uniq(lo.Map(d.Rows, func(r row, _ int) int64 { return r.Bytes }))
	slices.Sort(all)
	return all
}

// save replaces the file in one step.
func (d *document) save(path string) error {
	d.End = time.Now()
	text, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// figure writes µs to three digits.
func figure(v float64) string {
	switch {
	case v == 0:
		return ""
	case v >= 1000:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func factor(v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", v)
}
