package main

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// rowOf is a row whose cores were as near before as after.
func rowOf(pass int, peer, setting string, micros, placement float64) row {
	return row{cell: cell{2, 8, peerType}, Pass: pass, Peer: peer, Setting: setting, Trials: []float64{micros}, Time: micros, Before: placement, After: placement}
}

func sampleRows() []row {
	rows := []row{rowOf(-1, "Open MPI 4.1", "coll/sm", 0.1, 60)} // found while looking for the best: does not count
	for pass, times := range [][3]float64{{1.0, 2.0, 3.0}, {0.5, 1.5, 0.9}, {2.0, 8.0, 5.0}} {
		rows = append(rows, rowOf(pass, weirName, "shm-flat", times[0], 60), rowOf(pass, "Open MPI 4.1", "coll/sm", times[1], 60),
			rowOf(pass, "MPICH 4.0", "defaults", times[2], 61))
	}
	return rows
}

func TestCompare(t *testing.T) {
	all := compare(sampleRows(), cell{2, 8, peerType})
	if len(all) != 2 || all[0].Peer != "Open MPI 4.1" || all[0].Backend != "shm-flat" || all[0].Pairs != 3 || all[0].Dropped != 0 {
		t.Fatalf("%+v", all)
	}
	if l, m := all[0].least(), all[0].median(); l != 3 || m != 2 {
		t.Errorf("Open MPI: ratios %v and %v, want 3 and 2", l, m)
	}
	least, median := hardest(all)
	if least.Peer != "MPICH 4.0" || math.Abs(least.least()-1.8) > 1e-9 || median.Peer != "Open MPI 4.1" || median.median() != 2 {
		t.Errorf("hardest by least %+v, by median %+v", least, median)
	}
}

// TestCompareDropsPairsAcrossAChange: the fastest pass was run on nearer cores than the peer's.
func TestCompareDropsPairsAcrossAChange(t *testing.T) {
	rows := sampleRows()
	for i := range rows {
		if rows[i].Pass == 1 && rows[i].Peer == weirName {
			rows[i].After = 300
		}
	}
	all := compare(rows, cell{2, 8, peerType})
	for _, x := range all {
		if x.Pairs != 2 || x.Dropped != 1 || x.WeirLeast != 1 {
			t.Errorf("%+v", x)
		}
	}
	for i := range rows {
		rows[i].Before, rows[i].After = 60, 300
	}
	for _, x := range compare(rows, cell{2, 8, peerType}) {
		if x.Pairs != 0 || x.Dropped != 3 || x.WeirLeast != 0.5 {
			t.Errorf("no stable pair: %+v", x)
		}
	}
}

func TestCompareLeavesFailuresOut(t *testing.T) {
	rows := sampleRows()
	for i := range rows {
		if rows[i].Peer == "MPICH 4.0" && rows[i].Pass > 0 {
			rows[i].Error, rows[i].Time = "it hung", 0
		}
	}
	for _, x := range compare(rows, cell{2, 8, peerType}) {
		if x.Peer == "MPICH 4.0" && (x.Pairs != 1 || x.PeerLeast != 3) {
			t.Errorf("%+v", x)
		}
	}
}

func TestReport(t *testing.T) {
	rows := append(sampleRows(), row{cell: cell{2, 8, "bfloat16"}, Peer: weirName, Time: 0.75},
		row{cell: cell{4, 8, peerType}, Pass: -1, Peer: "Gloo", Setting: "ring", Error: "it hung"})
	d := document{
		CPU: "a processor", Cores: 2, Peers: []string{"Open MPI 4.1", "MPICH 4.0"}, Missing: []string{"PyTorch's gloo: not here"}, Rows: rows,
		Floors: floors{Cores: 2, SwitchNS: 1000, CopyMicros: []copyFloor{{2, 8, 0.01}}},
	}
	var b strings.Builder
	d.write(&b)
	for _, want := range []string{
		"a processor, 2 cores",
		"- missing: PyTorch's gloo: not here\n",
		"| 2 | 8 B | 0.5 (1) | shm-flat | 0.9 (2) | MPICH 4.0, defaults; by median Open MPI 4.1, coll/sm | 1.80 | 2.00 | 3 of 3 | 0.08 | 6.2 |\n",
		"| 2 | 1.80 / 2.00 | – | – |\n",
		"| 2 | 8 B | 1.50 / 0.75 |\n",
		"- failed: Gloo (ring), 4 ranks, 8 B: it hung",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, b.String())
		}
	}
	if f := d.figure(2); len(f.Panels[0].Lines) != 3 || f.Panels[0].Lines[1].Points[0].Y != 0.1 {
		t.Errorf("%+v", f.Panels[0].Lines)
	}
}

func TestFloors(t *testing.T) {
	f := floors{Cores: 4, SwitchNS: 2000, CopyMicros: []copyFloor{{4, 8, 0.01}, {4, mib, 100}}}
	for _, c := range []struct {
		cell cell
		want float64
	}{
		{cell{4, 8, peerType}, 0.1 + 4*0.01},               // one hand-over, all messages read
		{cell{4, mib, peerType}, 2*0.1 + (2-0.25)*100},     // two, and less than twice the message
		{cell{8, 8, peerType}, 2 + 8*0.01*2},               // two ranks a core: one switch
		{cell{16, mib, peerType}, 2*2*3 + (2-1./16)*100*4}, // four a core
		{cell{4, 999, peerType}, 0},                        // not measured
	} {
		if got := f.of(c.cell, 100); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%+v: %v, want %v", c.cell, got, c.want)
		}
	}
}

// TestCandidates: the best while looking for them take turns, what failed does not come back.
func TestCandidates(t *testing.T) {
	settings := []setting{{label: "a", most: anySize}, {label: "b", most: anySize}, {label: "c", most: anySize}, {label: "d", most: 4}}
	r := &runner{plan: plan{peers: []peer{{name: "P", settings: settings}}, keep: 1, scouting: 1, cores: 2}}
	for i, s := range settings {
		x := rowOf(-1, "P", s.label, float64(3-i), 60)
		if s.label == "c" {
			x.Error = "it hung"
		}
		r.rows = append(r.rows, x)
	}
	labels := func(pass int) string {
		var all []string
		for _, x := range r.candidates(cell{2, 8, peerType}, pass) {
			all = append(all, x.setting.label)
		}
		return fmt.Sprint(all)
	}
	if got := labels(-1); got != "[a b]" {
		t.Errorf("looking: %s", got)
	}
	if got := labels(0); got != "[b]" {
		t.Errorf("in turns: %s", got)
	}
}

// TestProbes: they end, and what they say is a time.
func TestProbes(t *testing.T) {
	if v := handOver(1); v != 0 {
		t.Errorf("one core hands over to none: %v", v)
	}
	if v := switchCore(); !(v > 0) {
		t.Errorf("a switch takes %v ns", v)
	}
	if v := copySeconds(1, 4096); !(v > 0 && v < 1) {
		t.Errorf("copying 4 KiB takes %v s", v)
	}
}
