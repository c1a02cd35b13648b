package telemetry

import (
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// scope names the instrumentation of Weir's spans and metrics.
const scope = "github.com/weir-project/weir/engine/telemetry"

// The spans of a resolution.
const (
	spanResolve  = "weir.resolve"
	spanAccept   = "weir.accept"
	spanPlan     = "weir.plan"
	spanPrepare  = "weir.prepare"
	spanConnect  = "weir.connect"
	spanSelfTest = "weir.selftest"
	spanCommit   = "weir.commit"

	spanFailover = "weir.failover"  // of its own: a call that went on with another backend
	spanSlowRank = "weir.slow_rank" // of its own: a rank that the others waited for
	spanUpgrade  = "weir.upgrade"   // the replacement of a plugin: decisions, a commit for each group, a switch for each rank
	spanSwitch   = "weir.switch"
)

// The attributes of spans and metrics. docs/telemetry.md explains them.
const (
	keyGroup     = attribute.Key("weir.group")
	keyWorldSize = attribute.Key("weir.world_size")
	keyLink      = attribute.Key("weir.link")
	keyMemory    = attribute.Key("weir.memory")
	keyDataType  = attribute.Key("weir.data_type")
	keyOp        = attribute.Key("weir.op")
	keyMode      = attribute.Key("weir.mode")
	keyBackends  = attribute.Key("weir.backends")
	keyFallback  = attribute.Key("weir.fallback")

	keyBackend         = attribute.Key("weir.backend")
	keyPlugin          = attribute.Key("weir.plugin")
	keyVerdict         = attribute.Key("weir.verdict")
	keyRanges          = attribute.Key("weir.ranges")
	keyReasonCodes     = attribute.Key("weir.reason.codes")
	keyReasonsObserved = attribute.Key("weir.reason.observed")
	keyReasonsRequired = attribute.Key("weir.reason.required")
	keyReasonRanks     = attribute.Key("weir.reason.ranks")
	keyReasonTexts     = attribute.Key("weir.reason.texts")

	keyPlanKind = attribute.Key("weir.plan.kind")
	keyRank     = attribute.Key("weir.rank")
	keyEpoch    = attribute.Key("weir.epoch")
	keyOutcome  = attribute.Key("weir.outcome")

	keyFailoverTo     = attribute.Key("weir.failover.to")
	keyFailoverCall   = attribute.Key("weir.failover.call")
	keyFailoverBytes  = attribute.Key("weir.failover.bytes")
	keyFailoverRedone = attribute.Key("weir.failover.redone")

	keySlowCall    = attribute.Key("weir.slow.call")
	keySlowLast    = attribute.Key("weir.slow.last")
	keyUpgradeCall = attribute.Key("weir.upgrade.call")

	keyErrorType = semconv.ErrorTypeKey
)

// The metrics.
const (
	metricCalls     = "weir.all_reduce.calls"
	metricIO        = "weir.all_reduce.io"
	metricDuration  = "weir.all_reduce.duration"
	metricDecisions = "weir.decisions"
	metricFailovers = "weir.failover.duration"
	metricLag       = "weir.rank.lag"
	metricUpgrades  = "weir.upgrades"
)
