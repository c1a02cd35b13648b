package plot

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"
	"strconv"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// raster draws pixels.
type raster struct {
	img           *image.RGBA
	scale         float64 // pixels per unit
	regular, bold *opentype.Font
	faces         map[textStyle]font.Face
}

func newRaster(width, height int, scale float64) (*raster, error) {
	r := &raster{
		img:   image.NewRGBA(image.Rect(0, 0, int(float64(width)*scale), int(float64(height)*scale))),
		scale: scale, faces: map[textStyle]font.Face{},
	}
	var err error
	if r.regular, err = opentype.Parse(goregular.TTF); err != nil {
		return nil, fmt.Errorf("plot: font: %w", err)
	}
	if r.bold, err = opentype.Parse(gobold.TTF); err != nil {
		return nil, fmt.Errorf("plot: font: %w", err)
	}
	return r, nil
}

func (r *raster) encode(w io.Writer) error { return png.Encode(w, r.img) }

func (r *raster) rect(x, y, w, h float64, fill string) {
	r.fill([][]Point{{{x, y}, {x + w, y}, {x + w, y + h}, {x, y + h}}}, fill)
}

// line fills a rectangle for each part and a disc for each joint, all with the same orientation, so that what overlaps
// is filled once.
func (r *raster) line(points []Point, width float64, color string, dashed bool) {
	parts := [][]Point{points}
	if dashed {
		parts = dashes(points, 5, 4)
	}
	var shapes [][]Point
	for _, part := range parts {
		for i := 1; i < len(part); i++ {
			a, b := part[i-1], part[i]
			length := math.Hypot(b.X-a.X, b.Y-a.Y)
			if length == 0 {
				continue
			}
			dx, dy := (b.X-a.X)/length*width/2, (b.Y-a.Y)/length*width/2
			shapes = append(shapes, []Point{{a.X + dy, a.Y - dx}, {b.X + dy, b.Y - dx}, {b.X - dy, b.Y + dx}, {a.X - dy, a.Y + dx}})
			if i+1 < len(part) {
				shapes = append(shapes, disc(b, width/2))
			}
		}
	}
	r.fill(shapes, color)
}

func (r *raster) dot(x, y, radius float64, color string) {
	r.fill([][]Point{disc(Point{x, y}, radius+0.5)}, paper)
	r.fill([][]Point{disc(Point{x, y}, radius-0.5)}, color)
}

// disc is a circle as a polygon.
func disc(at Point, radius float64) []Point {
	const corners = 24
	points := make([]Point, corners)
	for i := range points {
		s, c := math.Sincos(2 * math.Pi * float64(i) / corners)
		points[i] = Point{at.X + radius*c, at.Y + radius*s}
	}
	return points
}

// dashes cuts a straight line from the first to the last point.
func dashes(points []Point, on, off float64) [][]Point {
	a, b := points[0], points[len(points)-1]
	length := math.Hypot(b.X-a.X, b.Y-a.Y)
	along := func(d float64) Point { return Point{a.X + (b.X-a.X)*d/length, a.Y + (b.Y-a.Y)*d/length} }
	var parts [][]Point
	for d := 0.0; d < length; d += on + off {
		parts = append(parts, []Point{along(d), along(min(d+on, length))})
	}
	return parts
}

func (r *raster) fill(shapes [][]Point, fill string) {
	low, high := Point{math.Inf(1), math.Inf(1)}, Point{math.Inf(-1), math.Inf(-1)}
	for _, s := range shapes {
		for _, p := range s {
			low, high = Point{min(low.X, p.X), min(low.Y, p.Y)}, Point{max(high.X, p.X), max(high.Y, p.Y)}
		}
	}
	if len(shapes) == 0 {
		return
	}
	area := image.Rect(int(low.X*r.scale)-1, int(low.Y*r.scale)-1, int(high.X*r.scale)+2, int(high.Y*r.scale)+2).Intersect(r.img.Bounds())
	if area.Empty() {
		return
	}
	v := vector.NewRasterizer(area.Dx(), area.Dy())
	at := func(p Point) (float32, float32) {
		return float32(p.X*r.scale - float64(area.Min.X)), float32(p.Y*r.scale - float64(area.Min.Y))
	}
	for _, s := range shapes {
		v.MoveTo(at(s[0]))
		for _, p := range s[1:] {
			v.LineTo(at(p))
		}
		v.ClosePath()
	}
	v.DrawOp = draw.Over
	v.Draw(r.img, area, image.NewUniform(parseColor(fill)), image.Point{})
}

func (r *raster) text(x, y float64, s string, style textStyle) {
	face := r.face(style)
	if face == nil {
		return // the fonts are built in: it can be made
	}
	d := font.Drawer{Dst: r.img, Src: image.NewUniform(parseColor(style.color)), Face: face}
	x *= r.scale
	switch width := float64(d.MeasureString(s)) / 64; style.anchor {
	case middle:
		x -= width / 2
	case end:
		x -= width
	}
	d.Dot = fixed.Point26_6{X: fixed.Int26_6(x * 64), Y: fixed.Int26_6(y * r.scale * 64)}
	d.DrawString(s)
}

func (r *raster) face(style textStyle) font.Face {
	key := textStyle{size: style.size, bold: style.bold}
	if f, ok := r.faces[key]; ok {
		return f
	}
	from := r.regular
	if style.bold {
		from = r.bold
	}
	f, err := opentype.NewFace(from, &opentype.FaceOptions{Size: style.size * r.scale, DPI: 72, Hinting: font.HintingNone})
	if err != nil {
		return nil
	}
	r.faces[key] = f
	return f
}

// parseColor reads "#rrggbb".
func parseColor(s string) color.Color {
	v, err := strconv.ParseUint(s[1:], 16, 32)
	if err != nil {
		return color.Black
	}
	return color.RGBA{R: uint8(v >> 16), G: uint8(v >> 8), B: uint8(v), A: 255}
}
