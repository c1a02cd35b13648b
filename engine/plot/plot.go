// Package plot draws line charts on logarithmic axes as SVG and PNG.
package plot

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/weir-project/weir/engine/files"
)

// Figure is one picture of several panels side by side that share their lines' colours and the legend.
type Figure struct {
	Title    string
	Subtitle string
	Panels   []Panel
}

// Panel is one pair of logarithmic axes.
type Panel struct {
	Title  string
	XLabel string
	X      func(float64) string // label of a tick; nil: the number
	Y      func(float64) string
	Lines  []Line
	Marks  []Mark
}

// Line is a named curve. Points whose values are not above zero are left out.
type Line struct {
	Name   string
	Points []Point
}

// Point is a value.
type Point struct{ X, Y float64 }

// Mark is a vertical line with a label at its upper end.
type Mark struct {
	X     float64
	Label string
}

// Formats are the file name endings that Save knows.
func Formats() []string { return []string{".svg", ".png"} }

// Check says what is wrong with a file's name, before anything is measured for it.
func Check(path string) error {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".svg", ".png":
		return nil
	}
	return fmt.Errorf("%q does not end in %s", path, strings.Join(Formats(), " or "))
}

// Save writes the picture to a file, in the format that its name's ending says.
func (f Figure) Save(path string) (err error) {
	if err := Check(path); err != nil {
		return err
	}
	file, err := files.Create(path, 0o666)
	if err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	defer func() {
		if e := file.Close(); err == nil && e != nil {
			err = fmt.Errorf("plot: %w", e)
		}
	}()
	if strings.EqualFold(filepath.Ext(path), ".svg") {
		return f.SVG(file)
	}
	return f.PNG(file)
}

// SVG writes the picture as SVG.
func (f Figure) SVG(w io.Writer) error {
	width, height := f.size()
	c := newSVG(width, height)
	f.draw(c)
	_, err := io.WriteString(w, c.String())
	return err
}

// PNG writes the picture as PNG, at two pixels per unit.
func (f Figure) PNG(w io.Writer) error {
	width, height := f.size()
	c, err := newRaster(width, height, 2)
	if err != nil {
		return err
	}
	f.draw(c)
	return c.encode(w)
}

// canvas is what a figure is drawn on. The origin is the upper left corner.
type canvas interface {
	rect(x, y, w, h float64, fill string)
	line(points []Point, width float64, color string, dashed bool)
	dot(x, y, r float64, color string)
	text(x, y float64, s string, style textStyle)
}

type textStyle struct {
	size   float64
	color  string
	anchor anchor
	bold   bool
}

type anchor int

const (
	start anchor = iota
	middle
	end
)

// usable are a line's points that logarithmic axes can show.
func (l Line) usable() []Point {
	var all []Point
	for _, p := range l.Points {
		if p.X > 0 && p.Y > 0 && !math.IsInf(p.X, 0) && !math.IsInf(p.Y, 0) {
			all = append(all, p)
		}
	}
	return all
}
