package telemetrytest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metricsreq "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
)

// Point is a data point as it was received.
type Point struct {
	Metric     string
	Unit       string
	Attributes map[string]string
	Value      float64 // of a counter; the sum of a histogram
	Count      uint64  // of a histogram; 0 for others
}

// String is the point without what a histogram measured, which no test can know.
func (p Point) String() string {
	attrs := make([]string, 0, len(p.Attributes))
	for _, key := range slices.Sorted(maps.Keys(p.Attributes)) {
		attrs = append(attrs, key+"="+p.Attributes[key])
	}
	value := fmt.Sprintf("%g", p.Value)
	if p.Count > 0 {
		value = fmt.Sprintf("%d samples", p.Count)
	}
	return fmt.Sprintf("%s %s %s %s", p.Metric, value, p.Unit, strings.Join(attrs, " "))
}

func pointsOf(req *metricsreq.ExportMetricsServiceRequest) []Point {
	var points []Point
	for _, r := range req.GetResourceMetrics() {
		for _, scope := range r.GetScopeMetrics() {
			for _, m := range scope.GetMetrics() {
				points = append(points, metricPoints(m)...)
			}
		}
	}
	return points
}

func metricPoints(m *metricspb.Metric) []Point {
	var points []Point
	add := func(attrs []*commonpb.KeyValue, value float64, count uint64) {
		points = append(points, Point{Metric: m.GetName(), Unit: m.GetUnit(), Attributes: attributesOf(attrs), Value: value, Count: count})
	}
	numbers := slices.Concat(m.GetSum().GetDataPoints(), m.GetGauge().GetDataPoints())
	for _, p := range numbers {
		add(p.GetAttributes(), p.GetAsDouble()+float64(p.GetAsInt()), 0)
	}
	for _, p := range m.GetHistogram().GetDataPoints() {
		add(p.GetAttributes(), p.GetSum(), p.GetCount())
	}
	return points
}

// latest keeps the last point of every series; counters are cumulative.
func latest(points []Point) []Point {
	last := map[string]Point{}
	for _, p := range points {
		last[p.Metric+fmt.Sprint(p.Attributes)] = p // fmt sorts the keys of a map
	}
	return slices.SortedFunc(maps.Values(last), func(a, b Point) int {
		return cmp.Or(cmp.Compare(a.Metric, b.Metric), cmp.Compare(fmt.Sprint(a.Attributes), fmt.Sprint(b.Attributes)))
	})
}
