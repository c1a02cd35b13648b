package plot

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// svg writes elements as they are drawn.
type svg struct{ b strings.Builder }

func newSVG(width, height int) *svg {
	s := &svg{}
	fmt.Fprintf(&s.b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" `+
		`font-family="Inter, 'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', sans-serif">`+"\n", width, height, width, height)
	return s
}

func (s *svg) String() string { return s.b.String() + "</svg>\n" }

func (s *svg) rect(x, y, w, h float64, fill string) {
	fmt.Fprintf(&s.b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x, y, w, h, fill)
}

func (s *svg) line(points []Point, width float64, color string, dashed bool) {
	if len(points) < 2 {
		return
	}
	var at strings.Builder
	for i, p := range points {
		if i > 0 {
			at.WriteByte(' ')
		}
		fmt.Fprintf(&at, "%.1f,%.1f", p.X, p.Y)
	}
	dash := ""
	if dashed {
		dash = ` stroke-dasharray="5 4"`
	}
	fmt.Fprintf(&s.b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="%.1f" stroke-linejoin="round" stroke-linecap="round"%s/>`+"\n",
		at.String(), color, width, dash)
}

func (s *svg) dot(x, y, r float64, color string) {
	fmt.Fprintf(&s.b, `<circle cx="%.1f" cy="%.1f" r="%.1f" fill="%s" stroke="%s" stroke-width="1"/>`+"\n", x, y, r, color, paper)
}

func (s *svg) text(x, y float64, text string, style textStyle) {
	weight := ""
	if style.bold {
		weight = ` font-weight="600"`
	}
	fmt.Fprintf(&s.b, `<text x="%.1f" y="%.1f" font-size="%.1f" fill="%s" text-anchor="%s"%s>`, x, y, style.size, style.color,
		[]string{"start", "middle", "end"}[style.anchor], weight)
	_ = xml.EscapeText(&s.b, []byte(text)) // a strings.Builder takes everything
	s.b.WriteString("</text>\n")
}
