package schedule_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
	"github.com/weir-project/weir/core/schedule/allreduce"
)

var update = flag.Bool("update", false, "draw the picture of the documentation again")

func draw(t *testing.T, title string, s *plan.Schedule) string {
	t.Helper()
	var b bytes.Buffer
	if err := schedule.Draw(&b, title, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestDraw: pictures are well-formed, with a box for every step and an arrow for every wait.
func TestDraw(t *testing.T) {
	for name, build := range mutated {
		for world := 1; world <= 3; world++ {
			if world == 1 && name != "flat" {
				continue
			}
			s := build(world, 4096)
			svg := draw(t, `<"title">`, s)
			for d := xml.NewDecoder(strings.NewReader(svg)); ; {
				if _, err := d.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("%s, %d ranks: %v", name, world, err)
				}
			}
			waits := 0
			for _, p := range s.Programs {
				for _, step := range p {
					if step.Kind == plan.Wait && step.Lag == 0 {
						waits++
					}
				}
			}
			if n := strings.Count(svg, `marker-end="url(#a`); n != waits {
				t.Errorf("%s, %d ranks: %d arrows for %d waits", name, world, n, waits)
			}
			if !strings.Contains(svg, "&lt;&#34;title&#34;&gt;") {
				t.Errorf("%s, %d ranks: the title is not there", name, world)
			}
		}
	}
}

// TestDocumentedPicture: the documentation shows what is drawn now.
func TestDocumentedPicture(t *testing.T) {
	const file = "../../docs/two-shot.svg"
	want := draw(t, "Two-shot, 4 ranks", allreduce.TwoShot(4, 256<<10))
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is not what is drawn (%v): go test ./core/schedule -run DocumentedPicture -update", file, err)
	}
}

func TestWords(t *testing.T) {
	for want, step := range map[string]plan.Step{
		"copy out <- in":                           {Kind: plan.Copy, Dst: schedule.Out(), Srcs: []plan.Place{schedule.In()}, Chunk: plan.AllChunks},
		"wait for signal 1 of rank 2":              {Kind: plan.Wait, Signal: 1, Rank: 2},
		"wait for signal 1 of rank 2, 1 tile ago":  {Kind: plan.Wait, Signal: 1, Rank: 2, Lag: 1},
		"wait for signal 1 of rank 2, 3 tiles ago": {Kind: plan.Wait, Signal: 1, Rank: 2, Lag: 3},
		"give signal 4":                            {Kind: plan.Signal, Signal: 4},
		"reduce out <- slot 0 of ranks 1..3, in, slot 1 of rank 4, slot 0 of rank 5, chunk 6, final": {
			Kind: plan.Reduce, Dst: schedule.Out(), Chunk: 6, Final: true,
			Srcs: []plan.Place{schedule.Slot(1, 0), schedule.Slot(2, 0), schedule.Slot(3, 0), schedule.In(), schedule.Slot(4, 1), schedule.Slot(5, 0)},
		},
	} {
		if got := schedule.Words(step); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
