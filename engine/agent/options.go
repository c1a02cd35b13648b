package agent

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/engine/p2p"
	"github.com/weir-project/weir/engine/telemetry"
)

// Options are what an agent works with. All fields but those said to be optional must be set.
type Options struct {
	Socket     string                      // path to listen at; its folder must be the user's own
	WorldSize  int                         // ranks of a job
	Candidates func() []dispatch.Candidate // as they are now: plugins are restarted and replaced
	Policy     dispatch.Policy
	Topology   topology.Graph

	Deterministic bool  // groups want the same bits in every run
	ShareDevices  bool  // several ranks may be on one GPU
	MaxShared     int64 // bytes of shared memory for one group's plans

	UnabortableKernels bool // kernel plans that do not leave when a group fails may be used
	TryAbort           bool // for trials: try too whether kernels leave when they are told to, which ends their use

	// SlowAfter is the lag from which a rank is reported to be slow, half of CallDeadline at most; 0 for never.
	SlowAfter time.Duration

	JoinDeadline     time.Duration // for all ranks to join, or to form a new group
	CallDeadline     time.Duration // of one all-reduce
	PrepareDeadline  time.Duration
	SelfTestDeadline time.Duration
	WorkerDeadline   time.Duration // of a part of a call that all ranks have handed to a worker

	Tracer  telemetry.Tracer
	Parent  trace.SpanContext // optional; of every resolution's trace
	Meter   *telemetry.Meter  // optional
	Logger  *slog.Logger
	Decided func(Resolved) // optional; called with every outcome, one at a time

	// Failed is optional: it is called with what is known of a group that has just failed, its last calls among it.
	Failed func(GroupStatus)

	// Ending is optional: it says whether the ranks are being ended because somebody asked for it. What then becomes of groups is no
	// failure: it is neither logged as one nor given to Failed.
	Ending func() bool

	// Trial is optional: it runs a plan with foreign code in it apart from the ranks, at byte counts of the ranges, and returns
	// why it does not work.
	Trial func(context.Context, plan.Plan, []backend.Range, collective.Class, collective.Group) error

	// Await is optional: it waits until a plugin that has ended serves again, and returns false if it will not.
	Await func(ctx context.Context, plugin string) bool

	// Kill is optional: it ends a plugin's process, by its candidates' number, at once, because of a worker that does not go on.
	Kill func(process uint64, why error)

	// Prove is optional: it tries peer-to-peer access in some directions between devices, and returns what was found. It is
	// called once for each direction at most, and not twice at a time.
	Prove func(context.Context, []topology.Device, []p2p.Direction) []topology.Proof

	grace    time.Duration // 0: the constant
	maxPlans int           // 0: the constant
}

// Resolved is the outcome of a resolution.
type Resolved struct {
	Decision  dispatch.Decision
	WorldSize int
	Epoch     uint64
	From      uint64 // call from which it holds beside traffic; 0: a decision that the ranks waited for
	Took      time.Duration
	Err       error // no backend serves any size
}
