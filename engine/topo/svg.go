package topo

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/core/topology/foreign"
)

// look is how links of a class are drawn.
type look struct {
	class  topology.Class
	colour string
	dash   string
	about  string
}

// looks go from the fastest class to the slowest: from green over yellow to red, as everybody reads them.
var looks = []look{
	{topology.NVLink, "#2e7d32", "", "NV#: so many NVLinks"},
	{topology.XGMI, "#00796b", "", "XGMI: Infinity Fabric"},
	{topology.SIO, "#004d40", "", "SIO: two dies of one NPU"},
	{topology.HCCS, "#00796b", "", "HCCS"},
	{topology.PIX, "#7cb342", "", "PIX: at most one PCIe bridge"},
	{topology.PXB, "#c0ca33", "", "PXB: several PCIe bridges"},
	{topology.PHB, "#fbc02d", "", "PHB: through a PCIe host bridge"},
	{topology.NODE, "#fb8c00", "6 3", "NODE: between host bridges of a NUMA node"},
	{topology.SYS, "#d84315", "2 4", "SYS: between NUMA nodes"},
	{topology.PCIe, "#8d6e63", "2 4", "PCIE: path not told"},
	{topology.Unknown, "#d6d6d6", "1 5", "?: not shown by the text"},
}

func lookOf(c topology.Class) look {
	l, _ := lo.Find(looks, func(l look) bool { return l.class == c })
	return l
}

// Sizes of the picture, in its units.
const (
	margin   = 24.0
	heading  = 62.0
	cellSide = 38.0
	rowHead  = 62.0
	legendAt = 22.0
)

// SVG draws a topology: the devices on a circle by NUMA node, with their links, beside the matrix in the same colours.
func SVG(w io.Writer, r foreign.Reading) error {
	c := canvas{Reading: r, links: r.Links(), n: len(r.Graph.Devices)}
	c.draw()
	_, err := io.WriteString(w, c.String())
	return err
}

type canvas struct {
	strings.Builder
	foreign.Reading
	links  [][]topology.Link
	n      int
	order  []int // of the devices on the circle
	places []point
	centre point
	radius float64
}

type point struct{ x, y float64 }

func (c *canvas) draw() {
	c.radius = max(110, float64(c.n)*21)
	circle := 2*c.radius + 150
	side := rowHead + cellSide*float64(c.n)
	used := c.used()
	width := margin*3 + circle + side
	width = max(width, 760)
	body := max(circle-60, side+20)
	warnings := c.warningLines(int(width-2*margin) / 7)
	height := heading + body + 34 + legendAt*math.Ceil(float64(len(used))/2) + 18*float64(len(warnings)) + margin
	fmt.Fprintf(c, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" font-family="sans-serif" font-size="13">`+"\n",
		width, height, width, height)
	fmt.Fprintf(c, `<rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n")
	c.text(margin, 28, "start", `font-size="17" font-weight="bold"`, c.title())
	c.text(margin, 48, "start", `fill="#555555"`, c.summary())
	c.centre = point{margin + circle/2, heading + body/2}
	c.place()
	c.nodes()
	c.lines()
	c.devices()
	c.matrix(margin*2+circle, heading+(body-side)/2)
	y := heading + body + 30
	c.legend(used, margin, y, width/2)
	y += legendAt*math.Ceil(float64(len(used))/2) + 8
	for i, line := range warnings {
		c.text(margin, y+18*float64(i), "start", `font-size="12" fill="#444444"`, line)
	}
	c.WriteString("</svg>\n")
}

func (c *canvas) text(x, y float64, anchor, attributes, text string) {
	fmt.Fprintf(c, `<text x="%.1f" y="%.1f" text-anchor="%s" %s>%s</text>`+"\n", x, y, anchor, attributes, html.EscapeString(printable(text)))
}

// printable leaves out what XML cannot hold.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0xfffe || r == 0xffff || r == 0xfffd {
			return -1
		}
		return r
	}, s)
}

func (c *canvas) title() string {
	name := ""
	if c.n > 0 {
		name = c.Graph.Devices[0].Name
	}
	if name == "" || slices.ContainsFunc(c.Graph.Devices, func(d topology.Device) bool { return d.Name != name }) {
		return devices(c.Reading)
	}
	return devices(c.Reading) + ", " + name
}

func (c *canvas) summary() string {
	return fmt.Sprintf("%s · worst link %s · full NVLink %s · NVLink groups %s · peer access %s",
		strings.Join(c.Formats, ", "), c.Worst(), c.FullNVLink(), groups(c.Reading), c.Graph.P2P)
}

// colour is that of a link's class, lighter for fewer NVLinks than the machine's best pair has.
func (c *canvas) colour(l topology.Link) string {
	if l.Class != topology.NVLink || l.Count == 0 {
		return lookOf(l.Class).colour
	}
	most := l.Count
	for x := range topology.Pairs(c.links, c.n) {
		if x.Class == topology.NVLink {
			most = max(most, x.Count)
		}
	}
	if l.Count*4 > most*3 {
		return lookOf(l.Class).colour
	}
	return "#66a96a"
}

// used are the classes that the machine has.
func (c *canvas) used() []look {
	return lo.Filter(looks, func(l look, _ int) bool {
		for x := range topology.Pairs(c.links, c.n) {
			if x.Class == l.class {
				return true
			}
		}
		return false
	})
}

// matrix draws the links as cells.
func (c *canvas) matrix(x, y float64) {
	for a := range c.n {
		mid := (float64(a)+0.5)*cellSide + rowHead
		head := Name(c.Reading, a)
		if c.n > 10 { // longer names would run into each other
			head = strconv.Itoa(c.Graph.Devices[a].Index)
		}
		c.text(x+mid, y+rowHead-8, "middle", `font-size="11"`, head)
		c.text(x+rowHead-8, y+mid+4, "end", `font-size="11"`, Name(c.Reading, a))
		for b := range c.n {
			left, top := x+rowHead+float64(b)*cellSide, y+rowHead+float64(a)*cellSide
			fill, ink := c.colour(c.links[a][b]), "#ffffff"
			if a == b {
				fill, ink = "#f5f5f5", "#9e9e9e"
			} else if class := c.links[a][b].Class; class == topology.PXB || class == topology.PHB || class == topology.Unknown {
				ink = "#333333"
			}
			fmt.Fprintf(c, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", left+1, top+1, cellSide-2, cellSide-2, fill)
			c.text(left+cellSide/2, top+cellSide/2+4, "middle", fmt.Sprintf(`font-size="11" fill="%s"`, ink), cell(c.links, a, b))
		}
	}
}

func (c *canvas) legend(used []look, x, y, column float64) {
	for i, l := range used {
		left, top := x+float64(i%2)*column, y+float64(i/2)*legendAt
		fmt.Fprintf(c, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="4" stroke-dasharray="%s"/>`+"\n", left, top-4, left+34, top-4, l.colour, cmp.Or(l.dash, "none"))
		c.text(left+44, top, "start", "", l.about)
	}
}

// warningLines are the warnings, broken at a number of characters.
func (c *canvas) warningLines(width int) []string {
	var lines []string
	for _, w := range c.Warnings {
		line := "!"
		for word := range strings.FieldsSeq(w) {
			if len(line)+1+len(word) > width {
				lines = append(lines, line)
				line = "  "
			}
			line += " " + word
		}
		lines = append(lines, line)
	}
	return lines
}
