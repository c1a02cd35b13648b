package plot

import "math"

// axis maps a range of values, logarithmically, to a range of the canvas.
type axis struct {
	low, high float64 // values
	from, to  float64 // on the canvas
	ticks     []float64
	minor     []float64
}

func (a axis) at(v float64) float64 {
	return a.from + (a.to-a.from)*math.Log(v/a.low)/math.Log(a.high/a.low)
}

func (a axis) holds(v float64) bool { return v >= a.low*0.999 && v <= a.high*1.001 }

// binary is an axis for byte counts: it begins and ends near the values and has at most nine ticks, at powers of two.
func binary(low, high, from, to float64) axis {
	l, h := math.Floor(math.Log2(low)), math.Ceil(math.Log2(high))
	if l == h {
		l, h = l-1, h+1
	}
	a := axis{low: math.Exp2(l - 0.3), high: math.Exp2(h + 0.3), from: from, to: to}
	step := math.Ceil((h - l) / 8)
	for e := l; e <= h; e += step {
		a.ticks = append(a.ticks, math.Exp2(e))
	}
	for e := l; e <= h; e++ {
		a.minor = append(a.minor, math.Exp2(e))
	}
	return a
}

// decimal is an axis that begins and ends at 1, 2 or 5 times a power of ten, with ticks at those where there is room.
func decimal(low, high, from, to float64) axis {
	a := axis{low: stepDown(low), high: stepUp(high), from: from, to: to}
	if a.low == a.high {
		a.low, a.high = a.low/2, a.high*2
	}
	decades := math.Log10(a.high / a.low)
	for e := math.Floor(math.Log10(a.low)); e <= math.Ceil(math.Log10(a.high)); e++ {
		for m := 1.0; m < 10; m++ {
			v := m * math.Pow(10, e)
			switch {
			case !a.holds(v):
			case m == 1, decades < 3 && (m == 2 || m == 5), decades < 1 && m != 7 && m != 9:
				a.ticks = append(a.ticks, v)
			default:
				a.minor = append(a.minor, v)
			}
		}
	}
	return a
}

func stepDown(v float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{5, 2, 1} {
		if m*p <= v*1.0001 {
			return m * p
		}
	}
	return p
}

func stepUp(v float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5, 10} {
		if m*p >= v*0.9999 {
			return m * p
		}
	}
	return 10 * p
}
