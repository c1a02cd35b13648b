package topo

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/samber/lo"
	"github.com/weir-project/weir/core/topology"
)

// place puts the devices on a circle, those of a NUMA node side by side with a gap before the next node.
func (c *canvas) place() {
	c.order = lo.Range(c.n)
	numa := func(i int) string { return c.Graph.Devices[i].NUMA }
	slices.SortStableFunc(c.order, func(a, b int) int {
		if n := cmp.Compare(len(numa(a)), len(numa(b))); n != 0 {
			return n
		}
		return strings.Compare(numa(a), numa(b))
	})
	gaps := 0.0
	for i := range c.order {
		if c.n > 1 && numa(c.order[i]) != numa(c.order[(i+1)%c.n]) {
			gaps++
		}
	}
	step := 2 * math.Pi / (float64(c.n) + 0.8*gaps)
	angle := -math.Pi/2 - step*float64(c.n-1)/2
	if gaps > 0 { // the first node begins at the left, so that two nodes stand left and right
		angle = math.Pi/2 + step*0.9
	}
	c.places = make([]point, c.n)
	for k, i := range c.order {
		c.places[i] = point{c.centre.x + c.radius*math.Cos(angle), c.centre.y + c.radius*math.Sin(angle)}
		angle += step
		if numa(i) != numa(c.order[(k+1)%c.n]) {
			angle += 0.8 * step
		}
	}
}

// nodes draws a band behind the devices of each NUMA node.
func (c *canvas) nodes() {
	for k := 0; k < c.n; {
		end := k
		node := c.Graph.Devices[c.order[k]].NUMA
		for end < c.n && c.Graph.Devices[c.order[end]].NUMA == node {
			end++
		}
		if node != "" {
			c.node(c.order[k:end], node)
		}
		k = end
	}
}

func (c *canvas) node(members []int, name string) {
	points := lo.Map(members, func(i, _ int) string { return fmt.Sprintf("%.1f,%.1f", c.places[i].x, c.places[i].y) })
	if len(points) == 1 {
		points = append(points, points[0])
	}
	fmt.Fprintf(c, `<polyline points="%s" fill="none" stroke="#e8eaf6" stroke-width="58" stroke-linecap="round" stroke-linejoin="round"/>`+"\n", strings.Join(points, " "))
	var x, y float64
	for _, i := range members {
		x, y = x+c.places[i].x-c.centre.x, y+c.places[i].y-c.centre.y
	}
	length := math.Hypot(x, y)
	if length < 1 { // all round the circle
		x, y, length = 0, -1, 1
	}
	out := c.radius + 48
	c.text(c.centre.x+x/length*out, c.centre.y+y/length*out+4, "middle", `font-size="12" fill="#3949ab"`, "NUMA "+name)
}

// lines draws the links, the slow ones first so that the fast ones are seen.
func (c *canvas) lines() {
	type line struct{ a, b int }
	var all []line
	for a := range c.n {
		for b := range a {
			all = append(all, line{b, a})
		}
	}
	slices.SortStableFunc(all, func(p, q line) int {
		x, y := c.links[p.a][p.b], c.links[q.a][q.b]
		switch {
		case x.Slower(y):
			return -1
		case y.Slower(x):
			return 1
		}
		return 0
	})
	for _, l := range all {
		link := c.links[l.a][l.b]
		k := lookOf(link.Class)
		width := 1.2
		if link.Class == topology.NVLink || link.Class == topology.XGMI || link.Class == topology.HCCS || link.Class == topology.SIO {
			width = (2 + math.Min(2.5, float64(link.Count)/5)) * math.Min(1, 8/float64(c.n))
		}
		a, b := c.places[l.a], c.places[l.b]
		fmt.Fprintf(c, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%.1f" stroke-dasharray="%s" opacity="0.8"><title>%s–%s: %s</title></line>`+"\n",
			a.x, a.y, b.x, b.y, c.colour(link), width, cmp.Or(k.dash, "none"), Name(c.Reading, l.a), Name(c.Reading, l.b), link)
	}
}

// devices draws the devices; those of an NVLink group have a border of one colour.
func (c *canvas) devices() {
	group := make([]int, c.n)
	for g, set := range c.NVLinkGroups() {
		for _, i := range set {
			group[i] = g + 1
		}
	}
	borders := []string{"#9e9e9e", "#2e7d32", "#1565c0", "#6a1b9a", "#ad1457", "#4e342e", "#00838f", "#558b2f", "#283593"}
	for i, p := range c.places {
		border := borders[0]
		if g := group[i]; g > 0 {
			border = borders[1+(g-1)%(len(borders)-1)]
		}
		fmt.Fprintf(c, `<rect x="%.1f" y="%.1f" width="50" height="28" rx="5" fill="#ffffff" stroke="%s" stroke-width="2.5"/>`+"\n", p.x-25, p.y-14, border)
		c.text(p.x, p.y+4.5, "middle", `font-size="12.5"`, Name(c.Reading, i))
	}
}
