package bench

import (
	"flag"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/engine/plot"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (run with -update if the new one is right):\n%s", path, d)
	}
}

func sampleCells() []Cell {
	cell := func(bytes int64, backend string, times ...float64) Cell {
		c := Cell{Bytes: bytes, Count: bytes / 4, Backend: backend}
		for i, v := range times {
			x := &Column{Time: v, Min: v / 2, Median: v, P99: 2 * v, Trials: []float64{v}, Iterations: 100, Block: 10}
			if i == 0 {
				c.OutOfPlace = x
			} else {
				c.InPlace = x
			}
		}
		return c
	}
	return []Cell{
		cell(8, "shm-flat", 0.2345, 0.1), cell(1024, "shm-flat", 1.5), cell(14336, ""), cell(1<<20, "shm-twoshot", 130.25, 99.994),
		cell(64<<20, "shm-twoshot", 25_000, 1_234_567.8),
	}
}

func TestTable(t *testing.T) {
	cells := sampleCells()
	cells[3].InPlace.Wrong = 3
	cells[1].OutOfPlace.Wrong = -1
	h := Head{
		Version: "1.2.3", World: 2, Host: "box", Cores: 16, PIDs: []int{17, 123456},
		Spec: Spec{Sizes: []int64{8, 64 << 20}, Seconds: 0.1, Warmup: 5, Check: 1},
	}
	var b strings.Builder
	WriteHead(&b, h, "4(factor)")
	WriteTitles(&b)
	for _, c := range cells {
		WriteRow(&b, c, 2)
	}
	WriteMemory(&b, []Memory{{0, 30 << 20, 25 << 20, 4<<20 + 1, 1 << 19, 4096}})
	WriteFoot(&b, cells, 2, 1)
	golden(t, "table.txt", b.String())
}

func TestComparison(t *testing.T) {
	first, second := sampleCells(), sampleCells()
	second[0].OutOfPlace.Time = 0.3
	second[1].OutOfPlace, second[1].Backend = nil, ""
	second[3].OutOfPlace.Time = 90
	second[4].OutOfPlace.Time, second[4].OutOfPlace.Wrong = 20_000, 5
	var b strings.Builder
	Comparison{
		Names: []string{"shm-flat", "a-backend-with-a-long-name"}, Cells: [][]Cell{first, second},
		Chosen: func(c Cell) string { return "chosen" },
	}.Write(&b)
	golden(t, "comparison.txt", b.String())
}

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		v     float64
		width int
		want  string
	}{
		{0.2345, 7, "0.234"},
		{0, 6, "0.000"},
		{1, 7, "1.00"},
		{123.456, 7, "123.46"},
		{1234.56, 7, "1234.6"},
		{12345.6, 7, "12346"},
		{12345678.9, 7, "12345679"},
	} {
		if got := Number(c.v, c.width); got != c.want {
			t.Errorf("%v in %d: %q, want %q", c.v, c.width, got, c.want)
		}
	}
}

func TestResultOf(t *testing.T) {
	c := sampleCells()[3]
	c.DataType, c.Op = collective.BFloat16, collective.Max
	r := ResultOf(c, "shm-twoshot", 2)
	if r.Type != "bfloat16" || r.Op != "max" || r.Root != -1 || r.OutOfPlace.Time != 130.25 || *r.InPlace.Wrong != 0 {
		t.Errorf("%+v", r)
	}
	if math.Abs(r.OutOfPlace.BusBW-float64(1<<20)/130.25/1e3) > 1e-9 {
		t.Errorf("busbw of two ranks %v", r.OutOfPlace.BusBW)
	}
	if unserved := ResultOf(sampleCells()[2], "", 2); unserved.OutOfPlace != nil || unserved.Backend != "" {
		t.Errorf("not served: %+v", unserved)
	}
}

func TestFigureMarksCrossovers(t *testing.T) {
	f := Figure("title", "subtitle", []Curve{{"flat", []Point{{8, 1}, {512, 8}}}, {"two-shot", []Point{{8, 2}, {512, 4}}}}, 2)
	if len(f.Panels) != 2 || len(f.Panels[0].Marks) != 1 || f.Panels[0].Marks[0].Label != "two-shot from 64 B" {
		t.Errorf("%+v", f.Panels[0].Marks)
	}
	if got := f.Panels[1].Lines[0].Points[1]; got != (plot.Point{X: 512, Y: 0.064}) {
		t.Errorf("busbw %v", got)
	}
}

func TestAbout(t *testing.T) {
	for v, want := range map[float64]string{8: "8 B", 64.4: "64 B", 213: "210 B", 1003: "0.98 KiB", 17500: "17 KiB", 3.4 * (1 << 20): "3.4 MiB", 2 << 30: "2 GiB"} {
		if got := about(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for v, want := range map[float64]string{0.05: "50 ns", 0.1: "0.1 µs", 1: "1 µs", 12.345: "12.3 µs", 2000: "2 ms", 5e6: "5 s"} {
		if got := Duration(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}
