package telemetry

import (
	"fmt"
	"os"
	"strings"

	"github.com/samber/lo"
	"go.opentelemetry.io/contrib/propagators/autoprop"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
)

const propagatorsVariable = "OTEL_PROPAGATORS"

// propagator is how the trace context is written for other processes, and read: as OTEL_PROPAGATORS says, which holds even
// where nothing is exported. A name that is not known may be one that the ranks' program registers, so it is only
// complained of, on standard error as exporters do.
func propagator() propagation.TextMapPropagator {
	names := lo.Uniq(lo.Compact(lo.Map(strings.Split(os.Getenv(propagatorsVariable), ","), func(s string, _ int) string {
		return strings.TrimSpace(s)
	})))
	if len(names) == 0 {
		return standardPropagator()
	}
	p, err := autoprop.TextMapPropagator(names...)
	if err != nil {
		otel.Handle(fmt.Errorf("%s: %w", propagatorsVariable, err))
	}
	if p == nil { // none of the names is known, which the standard takes for a variable that is not set
		return standardPropagator()
	}
	return p
}

// standardPropagator is the standard's default.
func standardPropagator() propagation.TextMapPropagator {
	return propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
}
