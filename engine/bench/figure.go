package bench

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/engine/plot"
)

// Figure draws curves of times: latency and bus bandwidth against message size, with a mark where another curve becomes
// the fastest.
func Figure(title, subtitle string, curves []Curve, world int) plot.Figure {
	lines := func(y func(Point) float64) []plot.Line {
		return lo.Map(curves, func(c Curve, _ int) plot.Line {
			return plot.Line{Name: c.Name, Points: lo.Map(c.Points, func(p Point, _ int) plot.Point { return plot.Point{X: p.X, Y: y(p)} })}
		})
	}
	marks := lo.Map(Crossovers(curves), func(c Crossover, _ int) plot.Mark {
		return plot.Mark{X: c.X, Label: c.To + " from " + about(c.X)}
	})
	size := func(v float64) string { return backend.Size(int64(math.Round(v))) }
	return plot.Figure{
		Title: title, Subtitle: subtitle,
		Panels: []plot.Panel{
			{
				Title: "time per all-reduce (lower is better)", XLabel: "message size", X: size, Y: Duration,
				Lines: lines(func(p Point) float64 { return p.Y }), Marks: marks,
			},
			{
				Title: "bus bandwidth, GB/s (higher is better)", XLabel: "message size", X: size, Y: plain,
				Lines: lines(func(p Point) float64 { return BusBW(int64(p.X), p.Y, world) }), Marks: marks,
			},
		},
	}
}

// plain writes a number without an exponent.
func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// about is a byte count to two digits: what interpolation gives is no more exact.
func about(bytes float64) string {
	unit := 0
	for bytes >= 1000 && unit < 3 {
		bytes /= 1024
		unit++
	}
	digits := max(0, 1-int(math.Floor(math.Log10(bytes))))
	if bytes >= 100 {
		bytes = math.Round(bytes/10) * 10
	}
	number := strings.TrimSuffix(fmt.Sprintf("%.*f", digits, bytes), ".0")
	return number + " " + []string{"B", "KiB", "MiB", "GiB"}[unit]
}

// Duration writes µs with the unit that suits.
func Duration(microseconds float64) string {
	switch {
	case microseconds < 0.0995:
		return fmt.Sprintf("%.3g ns", microseconds*1e3)
	case microseconds < 1000:
		return fmt.Sprintf("%.3g µs", microseconds)
	case microseconds < 1e6:
		return fmt.Sprintf("%.3g ms", microseconds/1e3)
	}
	return fmt.Sprintf("%.3g s", microseconds/1e6)
}
