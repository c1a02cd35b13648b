package schedule

import (
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/weir-project/weir/core/plan"
)

// The measures of a drawing, in pixels.
const (
	fontSize  = 12
	charWidth = 6.7
	lineStep  = 15
	padding   = 7
	laneGap   = 34
	rowGap    = 12
	arrowGap  = 44 // above a row in which ranks wait
	margin    = 24
	loopWidth = 46
	headStep  = 20
	lanesAt   = 7.0 // lines of the head
)

// styles are the fill and the line of a box, by kind.
var styles = [...][2]string{
	plan.Copy: {"#dbeafe", "#2563eb"}, plan.Reduce: {"#fde9c4", "#c2660a"}, plan.Signal: {"#d7f5df", "#15803d"}, plan.Wait: {"#eef0f3", "#6b7280"},
}

// laneColours tell the arrows of different ranks apart.
var laneColours = []string{"#1d4ed8", "#b91c1c", "#15803d", "#7e22ce", "#b45309", "#0e7490", "#be185d", "#4d7c0f"}

// drawing is a schedule's boxes and where they lie.
type drawing struct {
	s     *plan.Schedule
	title string
	all   [][]box
	width float64   // of a box
	tops  []float64 // of the rows
	gap   []float64 // above the rows
	end   float64
	b     strings.Builder
}

// Draw writes a schedule as an SVG: a lane for each rank, its steps from the top down, an arrow from each signal to those
// who wait for it. The schedule must be proved. The title says what it is, such as "two-shot, 4 ranks".
func Draw(w io.Writer, title string, s *plan.Schedule) error {
	d := &drawing{s: s, title: title, all: boxes(s)}
	d.place()
	d.header()
	d.loop()
	d.arrows()
	for _, lane := range d.all {
		for _, b := range lane {
			d.box(b)
		}
	}
	d.printf("</svg>\n")
	_, err := io.WriteString(w, d.b.String())
	return err
}

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(&d.b, format, args...) }

func (d *drawing) text(x, y float64, attributes, words string) {
	d.printf("<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", x, y, attributes, html.EscapeString(words))
}

// place measures the boxes and rows.
func (d *drawing) place() {
	rows := arrange(d.all)
	heights, gaps := make([]float64, rows), make([]float64, rows)
	longest := 0
	for _, lane := range d.all {
		for _, b := range lane {
			for _, l := range b.lines {
				longest = max(longest, len([]rune(l)))
			}
			heights[b.row] = max(heights[b.row], height(b))
			if b.kind == plan.Wait && b.waits[0].Lag == 0 {
				gaps[b.row] = arrowGap
			}
		}
	}
	d.width = max(150, float64(longest)*charWidth+2*padding)
	y := margin + headStep*lanesAt + 2.0
	for row := range rows {
		gaps[row] = max(gaps[row], rowGap)
		y += gaps[row]
		d.tops = append(d.tops, y)
		y += heights[row]
	}
	d.gap, d.end = gaps, y
}

func height(b box) float64 { return float64(len(b.lines)*lineStep + 2*padding - 3) }

func (d *drawing) left(rank int) float64 {
	return margin + loopWidth + float64(rank)*(d.width+laneGap)
}

// header begins the file: size, title, what is drawn, the legend and the lanes.
func (d *drawing) header() {
	n := len(d.s.Programs)
	wide, high := max(d.left(n)-laneGap+margin, 860), d.end+margin+3*headStep
	d.printf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"%d\">\n",
		wide, high, wide, high, fontSize)
	d.printf("<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n")
	d.text(margin, margin+10, `font-size="18" font-weight="bold"`, d.title)
	for i, words := range []string{
		"Each rank works through its lane from the top down, once for every tile of the message.",
		upper(shape(d.s)) + ".",
		"“in” and “out” are the rank's own source and destination; a slot is memory that all ranks share. Numbers count the steps.",
	} {
		d.text(margin, margin+10+(1.3+0.9*float64(i))*headStep, "", words)
	}
	x, y := float64(margin), margin+10+3.7*headStep
	for kind, words := range []string{
		plan.Copy: "copy", plan.Reduce: "reduce (add up)", plan.Signal: "signal: others may go on", plan.Wait: "wait for a signal (arrow)",
	} {
		d.printf("<rect x=\"%.1f\" y=\"%.1f\" width=\"16\" height=\"13\" rx=\"3\" fill=\"%s\" stroke=\"%s\"/>\n", x, y, styles[kind][0], styles[kind][1])
		d.text(x+22, y+11, "", words)
		x += 22 + float64(len(words))*charWidth + 22
	}
	d.printf("<rect x=\"%.1f\" y=\"%.1f\" width=\"16\" height=\"13\" rx=\"3\" fill=\"white\" stroke=\"black\" stroke-width=\"2.5\"/>\n", x, y)
	d.text(x+22, y+11, "", "final: every rank's data is in")
	for rank := range n {
		x, y := d.left(rank), margin+headStep*lanesAt
		d.printf("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"6\" fill=\"#fafafa\" stroke=\"#e2e4e8\"/>\n", x-9, y-headStep, d.width+18, d.end-y+headStep+10)
		d.text(x+d.width/2, y-3, fmt.Sprintf("text-anchor=\"middle\" font-size=\"14\" font-weight=\"bold\" fill=%q", colour(rank)), fmt.Sprintf("rank %d", rank))
	}
}

func upper(words string) string { return strings.ToUpper(words[:1]) + words[1:] }

func colour(rank int) string { return laneColours[rank%len(laneColours)] }

// loop says that the program is repeated.
func (d *drawing) loop() {
	x, top, bottom := float64(margin+14), margin+headStep*(lanesAt-0.4), d.end+14
	d.printf("<path d=\"M%.1f %.1f H%.1f V%.1f H%.1f\" fill=\"none\" stroke=\"#9aa0aa\" stroke-width=\"2\" marker-end=\"url(#loop)\"/>\n",
		d.left(0)-9, bottom-8, x, top, d.left(0)-12)
	d.printf("<defs><marker id=\"loop\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"6\" markerHeight=\"6\" orient=\"auto\"><path d=\"M0 0 L8 4 L0 8 z\" fill=\"#9aa0aa\"/></marker></defs>\n")
	d.text(x-6, (top+bottom)/2, fmt.Sprintf("text-anchor=\"middle\" fill=\"#6b7280\" transform=\"rotate(-90 %.1f %.1f)\"", x-6, (top+bottom)/2), "then the next tile")
	words := "Then the same for the next tile, as soon as this rank comes here: ranks run ahead as far as the waits allow, into the next call too."
	d.text(d.left(0)-9, d.end+margin+headStep, "fill=\"#374151\"", words)
	words = "A wait ends with the signal for the same tile or a later one."
	if d.s.Slots > 0 {
		words += fmt.Sprintf(" Tile t uses copy t mod %d of every slot.", d.s.Buffers)
	}
	d.text(d.left(0)-9, d.end+margin+1.9*headStep, "fill=\"#374151\"", words)
}

// arrows lead from the bottom of a signal to the top of those who wait for it, below the boxes.
func (d *drawing) arrows() {
	for rank := range min(len(d.all), len(laneColours)) {
		d.printf("<defs><marker id=\"a%d\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"6\" markerHeight=\"6\" orient=\"auto\"><path d=\"M0 0 L8 4 L0 8 z\" fill=%q/></marker></defs>\n",
			rank, colour(rank))
	}
	for to, lane := range d.all {
		for _, b := range lane {
			for i, w := range b.waits {
				if w.Lag == 0 {
					d.arrow(w.Rank, to, w.Signal, b, float64(i+1)/float64(len(b.waits)+1))
				}
			}
		}
	}
}

// arrow ends at a fraction of the width of the box.
func (d *drawing) arrow(from, to, signal int, b box, at float64) {
	for _, s := range d.all[from] {
		if s.kind != plan.Signal || s.number != signal {
			continue
		}
		x1, y1 := d.left(from)+d.width*0.5, d.tops[s.row]+height(s)
		x2, y2 := d.left(to)+d.width*at, d.tops[b.row]
		knee, begin := y2-d.gap[b.row]+5, fmt.Sprintf("M%.1f %.1f", x1, y1)
		if b.row > s.row+1 { // beside what lies between
			gutter := d.left(from) + d.width + laneGap/2
			begin = fmt.Sprintf("M%.1f %.1f H%.1f", d.left(from)+d.width, y1-height(s)/2, gutter)
		}
		d.printf("<path d=\"%s V%.1f L%.1f %.1f V%.1f\" fill=\"none\" stroke=%q stroke-width=\"1.4\" stroke-opacity=\"0.75\" marker-end=\"url(#a%d)\"/>\n",
			begin, max(y1, knee), x2, y2-10, y2-1, colour(from), from%len(laneColours))
		return
	}
}

func (d *drawing) box(b box) {
	x, y := d.left(b.rank), d.tops[b.row]
	line, dashes := 1.0, ""
	if b.final {
		line = 2.5
	}
	if b.kind == plan.Wait && b.waits[0].Lag > 0 {
		dashes = ` stroke-dasharray="4 3"`
	}
	d.printf("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"4\" fill=\"%s\" stroke=\"%s\" stroke-width=\"%.1f\"%s/>\n",
		x, y, d.width, height(b), styles[b.kind][0], styles[b.kind][1], line, dashes)
	for i, words := range b.lines {
		attributes := ""
		if i == 0 {
			attributes = `font-weight="bold"`
		}
		at := x + padding
		if strings.HasPrefix(words, indent) {
			at += 12
		}
		d.text(at, y+padding+float64(i+1)*lineStep-5, attributes, strings.TrimSpace(words))
	}
}
