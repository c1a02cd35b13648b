package plot

import (
	"fmt"
	"math"

	"github.com/samber/lo"
)

// The layout, in units of the canvas.
const (
	panelWidth  = 560.0
	panelHeight = 400.0
	left        = 76.0 // of a panel, for the labels of its y axis
	right       = 22.0
	top         = 46.0 // of a panel, for its title and the marks' labels
	bottom      = 52.0
	margin      = 20.0
	legendLine  = 22.0
)

const (
	ink       = "#1f2933"
	faint     = "#616e7c"
	grid      = "#d5dbe1"
	gridMinor = "#eef1f4"
	paper     = "#ffffff"
)

// palette is Okabe and Ito's, which people with any colour vision tell apart, without its yellow.
var palette = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7a5195"}

// names are those of all lines in order of their first use.
func (f Figure) names() []string {
	var all []string
	for _, p := range f.Panels {
		for _, l := range p.Lines {
			all = append(all, l.Name)
		}
	}
	return lo.Uniq(all)
}

func (f Figure) color(name string) string {
	return palette[lo.IndexOf(f.names(), name)%len(palette)]
}

func (f Figure) width() float64 { return 2*margin + panelWidth*float64(max(1, len(f.Panels))) }

// head is the height of what is above the panels.
func (f Figure) head() float64 { return margin + 50 + legendLine*float64(len(f.legend())) }

func (f Figure) size() (width, height int) {
	return int(f.width()), int(f.head() + panelHeight + margin)
}

// legendItem is a name at a place of its row.
type legendItem struct {
	name string
	x    float64
}

// legend breaks the names into rows.
func (f Figure) legend() [][]legendItem {
	var rows [][]legendItem
	x := math.Inf(1)
	for _, n := range f.names() {
		width := 46 + 7.2*float64(len([]rune(n)))
		if x+width > f.width()-margin {
			rows = append(rows, nil)
			x = margin + 10
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], legendItem{n, x})
		x += width
	}
	return rows
}

func (f Figure) draw(c canvas) {
	width, height := f.size()
	c.rect(0, 0, float64(width), float64(height), paper)
	c.text(margin+10, margin+14, f.Title, textStyle{size: 18, color: ink, bold: true})
	c.text(margin+10, margin+34, f.Subtitle, textStyle{size: 12.5, color: faint})
	for i, row := range f.legend() {
		y := margin + 58 + legendLine*float64(i)
		for _, item := range row {
			c.line([]Point{{item.x, y - 4}, {item.x + 24, y - 4}}, 2.4, f.color(item.name), false)
			c.dot(item.x+12, y-4, 3.4, f.color(item.name))
			c.text(item.x+30, y, item.name, textStyle{size: 13, color: ink})
		}
	}
	for i, p := range f.Panels {
		f.panel(c, p, margin+panelWidth*float64(i), f.head())
	}
}

func (f Figure) panel(c canvas, p Panel, x, y float64) {
	x0, x1, y0, y1 := x+left, x+panelWidth-right, y+panelHeight-bottom, y+top
	c.text(x0, y+18, p.Title, textStyle{size: 14, color: ink, bold: true})
	var all []Point
	for _, l := range p.Lines {
		all = append(all, l.usable()...)
	}
	if len(all) == 0 {
		c.text((x0+x1)/2, (y0+y1)/2, "nothing was measured", textStyle{size: 13, color: faint, anchor: middle})
		return
	}
	xs, ys := lo.Map(all, func(p Point, _ int) float64 { return p.X }), lo.Map(all, func(p Point, _ int) float64 { return p.Y })
	ax, ay := binary(lo.Min(xs), lo.Max(xs), x0, x1), decimal(lo.Min(ys), lo.Max(ys), y0, y1)
	p.frame(c, ax, ay)
	p.marks(c, ax, y0, y1)
	for _, l := range p.Lines {
		points := lo.Map(l.usable(), func(p Point, _ int) Point { return Point{ax.at(p.X), ay.at(p.Y)} })
		c.line(points, 2.4, f.color(l.Name), false)
		for _, q := range points {
			c.dot(q.X, q.Y, 3.4, f.color(l.Name))
		}
	}
}

// frame draws the grid, the axes and their labels.
func (p Panel) frame(c canvas, ax, ay axis) {
	for _, v := range ay.minor {
		c.line([]Point{{ax.from, ay.at(v)}, {ax.to, ay.at(v)}}, 1, gridMinor, false)
	}
	for _, v := range ax.minor {
		c.line([]Point{{ax.at(v), ay.from}, {ax.at(v), ay.to}}, 1, gridMinor, false)
	}
	for _, v := range ay.ticks {
		c.line([]Point{{ax.from, ay.at(v)}, {ax.to, ay.at(v)}}, 1, grid, false)
		c.text(ax.from-8, ay.at(v)+4, label(p.Y, v), textStyle{size: 12, color: faint, anchor: end})
	}
	for _, v := range ax.ticks {
		c.line([]Point{{ax.at(v), ay.from}, {ax.at(v), ay.from + 5}}, 1, faint, false)
		c.text(ax.at(v), ay.from+20, label(p.X, v), textStyle{size: 12, color: faint, anchor: middle})
	}
	c.line([]Point{{ax.from, ay.from}, {ax.to, ay.from}}, 1.2, faint, false)
	c.text((ax.from+ax.to)/2, ay.from+42, p.XLabel, textStyle{size: 12.5, color: ink, anchor: middle})
}

// marks draws vertical lines. Labels that would overlap go one line higher or lower.
func (p Panel) marks(c canvas, ax axis, y0, y1 float64) {
	last, level := math.Inf(-1), 0
	for _, m := range p.Marks {
		if !ax.holds(m.X) {
			continue
		}
		x := ax.at(m.X)
		half := 3.1 * float64(len([]rune(m.Label)))
		if x-half < last {
			level = 1 - level
		} else {
			level = 0
		}
		last = x + half
		c.line([]Point{{x, y0}, {x, y1 - 2}}, 1.2, faint, true)
		at := min(max(x, ax.from+half), ax.to-half)
		c.text(at, y1-6-11*float64(level), m.Label, textStyle{size: 11, color: faint, anchor: middle})
	}
}

func label(format func(float64) string, v float64) string {
	if format == nil {
		return fmt.Sprintf("%g", v)
	}
	return format(v)
}
