package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/engine/bench"
	"github.com/weir-project/weir/engine/plot"
)

// document is the file that a run leaves.
type document struct {
	Host    string    `json:"host"`
	CPU     string    `json:"cpu"`
	Cores   int       `json:"cores"`
	Kernel  string    `json:"kernel"`
	Start   time.Time `json:"start"`
	End     time.Time `json:"end"`
	Load    string    `json:"load"` // of the machine before, as the kernel says it
	Seconds float64   `json:"seconds"`
	Peers   []string  `json:"peers"`
	Missing []string  `json:"missing"`
	Floors  floors    `json:"floors"`
	Rows    []row     `json:"rows"`
}

// drift is how much the hand-over between cores may differ, as a factor, around the two starts of a pair.
const drift = 1.6

// pair is a start of Weir and one of a peer in the same turn.
type pair struct{ weir, peer row }

// stable reports that the cores stayed where they were.
func (p pair) stable() bool {
	seen := lo.Filter([]float64{p.weir.Before, p.weir.After, p.peer.Before, p.peer.After}, func(v float64, _ int) bool { return v > 0 })
	return len(seen) == 0 || lo.Max(seen) <= drift*lo.Min(seen)
}

// comparison is a peer's setting against Weir in one cell.
type comparison struct {
	cell
	Peer, Setting, Backend string
	Pairs, Dropped         int
	WeirLeast, WeirMedian  float64
	PeerLeast, PeerMedian  float64
}

func (c comparison) least() float64  { return c.PeerLeast / c.WeirLeast }
func (c comparison) median() float64 { return c.PeerMedian / c.WeirMedian }

// compare makes the comparisons of a cell, one for each setting. Pairs made across a change of placement are dropped;
// a setting of which every pair was made across one is compared all the same, with no pair that counts.
func compare(rows []row, c cell) []comparison {
	weir := map[int]row{}
	pairs := map[string][]pair{}
	for _, r := range rows {
		if r.cell == c && r.Pass >= 0 && r.Error == "" && r.Peer == weirName {
			weir[r.Pass] = r
		}
	}
	for _, r := range rows {
		if w, ok := weir[r.Pass]; ok && r.cell == c && r.Pass >= 0 && r.Error == "" && r.Peer != weirName {
			key := r.Peer + "\x00" + r.Setting
			pairs[key] = append(pairs[key], pair{w, r})
		}
	}
	var all []comparison
	for _, all2 := range pairs {
		all = append(all, compareSetting(c, all2))
	}
	slices.SortFunc(all, func(a, b comparison) int {
		return cmp.Or(cmp.Compare(a.PeerMedian, b.PeerMedian), cmp.Compare(a.Peer+a.Setting, b.Peer+b.Setting))
	})
	return all
}

func compareSetting(c cell, pairs []pair) comparison {
	kept := lo.Filter(pairs, func(p pair, _ int) bool { return p.stable() })
	x := comparison{
		cell: c, Peer: pairs[0].peer.Peer, Setting: pairs[0].peer.Setting, Backend: pairs[0].weir.Setting,
		Pairs: len(kept), Dropped: len(pairs) - len(kept),
	}
	if len(kept) == 0 {
		kept = pairs
	}
	weir := lo.Map(kept, func(p pair, _ int) float64 { return p.weir.Time })
	peer := lo.Map(kept, func(p pair, _ int) float64 { return p.peer.Time })
	x.WeirLeast, x.WeirMedian = lo.Min(weir), bench.Median(weir)
	x.PeerLeast, x.PeerMedian = lo.Min(peer), bench.Median(peer)
	return x
}

// hardest are the comparisons with the smallest ratio of the least and of the median times: the peer that is best by each.
func hardest(all []comparison) (least, median comparison) {
	byLeast := func(a, b comparison) int { return cmp.Compare(a.least(), b.least()) }
	byMedian := func(a, b comparison) int { return cmp.Compare(a.median(), b.median()) }
	return slices.MinFunc(all, byLeast), slices.MinFunc(all, byMedian)
}

// cells are those with rows of peers, in order.
func (d document) cells() []cell {
	all := lo.FilterMap(d.Rows, func(r row, _ int) (cell, bool) { return r.cell, r.Type == peerType })
	all = lo.Uniq(all)
	slices.SortFunc(all, func(a, b cell) int { return cmp.Or(cmp.Compare(a.Ranks, b.Ranks), cmp.Compare(a.Bytes, b.Bytes)) })
	return all
}

// handOver is the least ever probed for that many ranks, in ns: the nearest placement.
func (d document) handOver(ranks int) float64 {
	seen := lo.FilterMap(d.Rows, func(r row, _ int) (float64, bool) { return r.Before, r.Ranks == ranks && r.Before > 0 })
	return lo.Min(seen)
}

// write prints the tables.
func (d document) write(w io.Writer) {
	fmt.Fprintf(w, "%s, %d cores, Linux %s, %s to %s, load before %s\n\n", d.CPU, d.Cores, d.Kernel, d.Start.Format(time.DateTime), d.End.Format(time.TimeOnly), d.Load)
	for _, m := range d.Missing {
		fmt.Fprintf(w, "- missing: %s\n", m)
	}
	d.writeCells(w)
	d.writeBands(w)
	d.writeTypes(w)
	d.writeFailures(w)
}

func (d document) writeCells(w io.Writer) {
	fmt.Fprintf(w, "\nµs per all-reduce, float32, sum: least (median) over the passes; ratio: best peer ÷ Weir\n\n")
	fmt.Fprintln(w, "| ranks | size | Weir | by | best peer | with | ratio of least | ratio of medians | pairs kept | floor | Weir ÷ floor |")
	fmt.Fprintln(w, "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, c := range d.cells() {
		all := compare(d.Rows, c)
		if len(all) == 0 {
			d.writeAlone(w, c)
			continue
		}
		least, median := hardest(all)
		with := least.Peer + ", " + least.Setting
		if median.Peer != least.Peer || median.Setting != least.Setting {
			with += "; by median " + median.Peer + ", " + median.Setting
		}
		floor := d.Floors.of(c, d.handOver(c.Ranks))
		fmt.Fprintf(w, "| %d | %s | %s (%s) | %s | %s (%s) | %s | %.2f | %.2f | %d of %d | %s | %s |\n", c.Ranks, backend.Size(c.Bytes),
			micros(least.WeirLeast), micros(median.WeirMedian), least.Backend, micros(least.PeerLeast), micros(median.PeerMedian), with,
			least.least(), median.median(), least.Pairs, least.Pairs+least.Dropped, micros(floor), times(least.WeirLeast, floor))
	}
}

// writeAlone is the row of a cell in which Weir, or every peer, is missing.
func (d document) writeAlone(w io.Writer, c cell) {
	side := func(of func(row) bool) string {
		t := lo.FilterMap(d.Rows, func(r row, _ int) (float64, bool) { return r.Time, r.cell == c && r.Error == "" && of(r) })
		if len(t) == 0 {
			return "–"
		}
		return fmt.Sprintf("%s (%s)", micros(lo.Min(t)), micros(bench.Median(t)))
	}
	floor := d.Floors.of(c, d.handOver(c.Ranks))
	fmt.Fprintf(w, "| %d | %s | %s | | %s | | – | – | 0 | %s | |\n", c.Ranks, backend.Size(c.Bytes), side(func(r row) bool { return r.Peer == weirName }),
		side(func(r row) bool { return r.Peer != weirName }), micros(floor))
}

// bands are the sizes that are judged together.
var bands = []struct {
	name        string
	least, most int64
}{{"8 B – 1 KiB", 8, kib}, {"14 KiB – 1 MiB", 14 * kib, mib}, {"16 – 64 MiB", 16 * mib, 64 * mib}}

// writeBands prints the smallest ratio of each band.
func (d document) writeBands(w io.Writer) {
	fmt.Fprintf(w, "\nSmallest ratio of least / of medians in each band:\n\n| ranks |")
	for _, b := range bands {
		fmt.Fprintf(w, " %s |", b.name)
	}
	fmt.Fprintf(w, "\n| --- | --- | --- | --- |\n")
	for _, n := range lo.Uniq(lo.Map(d.cells(), func(c cell, _ int) int { return c.Ranks })) {
		fmt.Fprintf(w, "| %d |", n)
		for _, b := range bands {
			fmt.Fprintf(w, " %s |", d.band(n, b.least, b.most))
		}
		fmt.Fprintln(w)
	}
}

func (d document) band(ranks int, from, to int64) string {
	least, median := math.Inf(1), math.Inf(1)
	for _, c := range d.cells() {
		if all := compare(d.Rows, c); c.Ranks == ranks && c.Bytes >= from && c.Bytes <= to && len(all) > 0 {
			l, m := hardest(all)
			least, median = min(least, l.least()), min(median, m.median())
		}
	}
	if math.IsInf(least, 1) {
		return "–"
	}
	return fmt.Sprintf("%.2f / %.2f", least, median)
}

// writeTypes prints Weir's other data types against its own float32 of the same turns.
func (d document) writeTypes(w io.Writer) {
	types := lo.Without(lo.Uniq(lo.FilterMap(d.Rows, func(r row, _ int) (string, bool) { return r.Type, r.Peer == weirName })), peerType)
	if len(types) == 0 {
		return
	}
	fmt.Fprintf(w, "\nWeir's other data types ÷ its float32 at the same bytes, least / median:\n\n| ranks | size |")
	for _, t := range types {
		fmt.Fprintf(w, " %s |", t)
	}
	fmt.Fprintf(w, "\n| --- | --- |%s\n", lo.Reduce(types, func(s, _ string, _ int) string { return s + " --- |" }, ""))
	for _, c := range d.cells() {
		fmt.Fprintf(w, "| %d | %s |", c.Ranks, backend.Size(c.Bytes))
		for _, t := range types {
			own, other := d.weirTimes(c), d.weirTimes(cell{c.Ranks, c.Bytes, t})
			if len(own) == 0 || len(other) == 0 {
				fmt.Fprint(w, " – |")
				continue
			}
			fmt.Fprintf(w, " %.2f / %.2f |", lo.Min(other)/lo.Min(own), bench.Median(other)/bench.Median(own))
		}
		fmt.Fprintln(w)
	}
}

func (d document) weirTimes(c cell) []float64 {
	return lo.FilterMap(d.Rows, func(r row, _ int) (float64, bool) { return r.Time, r.cell == c && r.Peer == weirName && r.Error == "" })
}

func (d document) writeFailures(w io.Writer) {
	for _, r := range d.Rows {
		if r.Error != "" {
			fmt.Fprintf(w, "\n- failed: %s (%s), %d ranks, %s: %s", r.Peer, r.Setting, r.Ranks, backend.Size(r.Bytes), r.Error)
		}
	}
	fmt.Fprintln(w)
}

// figure draws the least times of Weir and of every peer at its best setting for that size.
func (d document) figure(ranks int) plot.Figure {
	names := append([]string{weirName}, d.Peers...)
	var curves []bench.Curve
	for _, n := range names {
		c := bench.Curve{Name: n}
		for _, x := range d.cells() {
			t := lo.FilterMap(d.Rows, func(r row, _ int) (float64, bool) { return r.Time, r.cell == x && r.Peer == n && r.Error == "" })
			if x.Ranks == ranks && len(t) > 0 {
				c.Points = append(c.Points, bench.Point{X: float64(x.Bytes), Y: lo.Min(t)})
			}
		}
		if len(c.Points) > 0 {
			curves = append(curves, c)
		}
	}
	return bench.Figure(fmt.Sprintf("All-reduce in host memory, %d ranks, float32 sum", ranks),
		fmt.Sprintf("%s, %d cores; every library at its best setting for that size; least over all passes", d.CPU, d.Cores), curves, ranks)
}

// micros writes µs to three digits.
func micros(v float64) string {
	switch {
	case v == 0 || math.IsInf(v, 0) || math.IsNaN(v):
		return "–"
	case v >= 1000:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func times(v, floor float64) string {
	if floor <= 0 || math.IsInf(floor, 0) {
		return "–"
	}
	return fmt.Sprintf("%.1f", v/floor)
}
