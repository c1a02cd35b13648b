package bench

import (
	"maps"
	"math"
	"slices"
)

// Point is a message size in bytes and a time in µs.
type Point struct{ X, Y float64 }

// Curve is one backend's times by rising size.
type Curve struct {
	Name   string
	Points []Point
}

// Crossover is a size at which another curve becomes the lowest.
type Crossover struct {
	X        float64 // interpolated on logarithmic axes
	From, To string
}

// Crossovers finds where the lowest of the curves changes. Curves are compared where both have a point.
func Crossovers(curves []Curve) []Crossover {
	var all []Crossover
	last := -1
	var at map[int]float64 // values at the last size, by curve
	x := 0.0
	for _, size := range sizesOf(curves) {
		values, best := map[int]float64{}, -1
		for i, c := range curves {
			if y, ok := c.at(size); ok {
				values[i] = y
				if best < 0 || y < values[best] {
					best = i
				}
			}
		}
		if last >= 0 && best != last {
			all = append(all, Crossover{X: crossing(x, size, at, values, last, best), From: curves[last].Name, To: curves[best].Name})
		}
		last, at, x = best, values, size
	}
	return all
}

// crossing is where two curves meet between two sizes; the larger size if one of them does not span it.
func crossing(x0, x1 float64, before, after map[int]float64, a, b int) float64 {
	a0, ok1 := before[a]
	b0, ok2 := before[b]
	a1, ok3 := after[a]
	b1, ok4 := after[b]
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return x1
	}
	d0, d1 := math.Log(b0/a0), math.Log(b1/a1) // from positive to not
	if d0 == d1 {
		return x1
	}
	return x0 * math.Pow(x1/x0, d0/(d0-d1))
}

func (c Curve) at(x float64) (float64, bool) {
	for _, p := range c.Points {
		if p.X == x {
			return p.Y, true
		}
	}
	return 0, false
}

// sizesOf are the sizes at which any curve has a point, rising.
func sizesOf(curves []Curve) []float64 {
	seen := map[float64]bool{}
	for _, c := range curves {
		for _, p := range c.Points {
			seen[p.X] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
