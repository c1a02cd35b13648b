package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func sample() Figure {
	return Figure{
		Title: `<&"quoted">`, Subtitle: "µs",
		Panels: []Panel{
			{
				Title: "first", XLabel: "size", Lines: []Line{
					{"one & only", []Point{{8, 0.1}, {1024, 5}, {1 << 26, 90_000}}},
					{"other", []Point{{8, 0}, {64, -1}, {1024, 2}, {4096, 3}}},
				},
				Marks: []Mark{{900, "a mark that is long"}, {1000, "one beside it"}, {1e12, "far outside"}},
			},
			{Title: "nothing", Lines: []Line{{Name: "other"}}},
		},
	}
}

// TestSVGIsWellFormed: and all that is said is in it, outside values are not.
func TestSVGIsWellFormed(t *testing.T) {
	var b bytes.Buffer
	if err := sample().SVG(&b); err != nil {
		t.Fatal(err)
	}
	text, circles := "", 0
	for d := xml.NewDecoder(&b); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch x := token.(type) {
		case xml.CharData:
			text += string(x) + "\n"
		case xml.StartElement:
			if x.Name.Local == "circle" {
				circles++
			}
			for _, a := range x.Attr {
				if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
					t.Errorf("%s: %s=%q", x.Name.Local, a.Name.Local, a.Value)
				}
			}
		}
	}
	for _, want := range []string{`<&"quoted">`, "µs", "one & only", "other", "nothing was measured", "a mark that is long"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the picture", want)
		}
	}
	if strings.Contains(text, "far outside") {
		t.Error("a mark outside the axis is drawn")
	}
	if circles != 2+3+2 { // legend, points above zero
		t.Errorf("%d circles", circles)
	}
}

func TestPNG(t *testing.T) {
	var b bytes.Buffer
	f := sample()
	if err := f.PNG(&b); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	width, height := f.size()
	if r := img.Bounds(); r.Dx() != 2*width || r.Dy() != 2*height {
		t.Errorf("%v, want twice %d × %d", r, width, height)
	}
	colors := map[[3]uint32]bool{}
	for y := 0; y < img.Bounds().Dy(); y += 2 { // no line is thinner
		for x := 0; x < img.Bounds().Dx(); x += 2 {
			r, g, b, _ := img.At(x, y).RGBA()
			colors[[3]uint32{r >> 8, g >> 8, b >> 8}] = true
		}
	}
	for _, c := range []string{palette[0], palette[1], paper, ink} {
		r, g, b, _ := parseColor(c).RGBA()
		if !colors[[3]uint32{r >> 8, g >> 8, b >> 8}] {
			t.Errorf("no pixel has the colour %s", c)
		}
	}
}

func TestSave(t *testing.T) {
	dir := t.TempDir()
	for name, begin := range map[string]string{"a.svg": "<svg", "b.PNG": "\x89PNG"} {
		path := filepath.Join(dir, name)
		if err := sample().Save(path); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(got), begin) {
			t.Errorf("%s: %v, begins %q", name, err, got[:min(8, len(got))])
		}
	}
	if err := sample().Save(filepath.Join(dir, "a.gif")); err == nil || !strings.Contains(err.Error(), "does not end in .svg or .png") {
		t.Errorf("gif: %v", err)
	}
	if err := sample().Save(filepath.Join(dir, "nowhere", "a.svg")); err == nil {
		t.Error("a folder that does not exist, want an error")
	}
}

func TestAxes(t *testing.T) {
	for _, c := range [][2]float64{{1, 1}, {8, 8}, {0.1, 0.12}, {0.23, 85_000}, {1e-7, 9e8}, {3, 4}} {
		for name, a := range map[string]axis{"decimal": decimal(c[0], c[1], 100, 0), "binary": binary(c[0], c[1], 0, 100)} {
			if !(a.low <= c[0] && a.high >= c[1] && a.low < a.high) {
				t.Errorf("%s %v: from %v to %v", name, c, a.low, a.high)
			}
			if len(a.ticks) == 0 || len(a.ticks) > 20 {
				t.Errorf("%s %v: ticks %v", name, c, a.ticks)
			}
			for _, v := range append(a.ticks, a.minor...) {
				if at := a.at(v); at < -1 || at > 101 {
					t.Errorf("%s %v: tick %v at %v", name, c, v, at)
				}
			}
		}
	}
	if a := decimal(1, 100, 0, 100); a.at(10) != 50 {
		t.Errorf("10 between 1 and 100 is at %v", a.at(10))
	}
}
