package pluginv1_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
)

// image is a kernel plan as large as its image.
func image(bytes int) *plan.Kernel {
	return &plan.Kernel{
		Image: make([]byte, bytes), MinDriver: "12.0",
		Launches: []plan.Launch{{DataType: "float32", Min: 1, Max: 1 << 30, Function: "f", Grid: 1, Block: 32}},
	}
}

// Every plan that is valid, as large as plan.Validate lets it be, fits into an answer.
func TestEveryValidPlanFits(t *testing.T) {
	// A program of a rank that has its share of what all may have, in the longest steps that do something.
	const steps, sources = plan.MaxAllSteps / plan.MaxWorld, plan.MaxSources / plan.MaxAllSteps
	place := plan.Place{Where: plan.Slot, Rank: plan.MaxWorld - 1, Slot: plan.MaxSlots - 1}
	step := plan.Step{Kind: plan.Reduce, Dst: place, Chunk: plan.AllChunks, Final: true}
	for range sources {
		step.Srcs = append(step.Srcs, place)
	}
	s := &plan.Schedule{TileBytes: 64, Buffers: 1, Slots: plan.MaxSlots, Signals: plan.MaxSignals, Chunks: 1, Programs: make([][]plan.Step, 1)}
	for range steps {
		s.Programs[0] = append(s.Programs[0], step)
	}
	if n := plan.MaxWorld * proto.Size(pluginv1.FromPlan(s)); n > pluginv1.MaxAnswer {
		t.Errorf("a schedule of %d bytes does not fit", n)
	}

	k := image(64 << 20)
	for len(k.Launches) < 1024 {
		l := k.Launches[0]
		l.Function = strings.Repeat("f", 4<<10) // of a template
		k.Launches = append(k.Launches, l)
	}
	if n := proto.Size(pluginv1.FromPlan(k)); n > pluginv1.MaxAnswer {
		t.Errorf("a kernel of %d bytes does not fit", n)
	}
	if err := image(64<<20 + 1).Validate(2); err == nil {
		t.Error("a larger image would be valid")
	}
}

// A plan beyond the limit declines the backend with what it has and may have, and the plugin serves on.
func TestPlanThatIsTooLarge(t *testing.T) {
	bytes := 64 << 20
	f := &fake{info: backend.Info{Name: "large", Kind: plan.KernelKind}}
	f.plan = func(backend.Request, []backend.Range) (plan.Plan, error) { return image(bytes), nil }
	b := connect(t, f, pluginv1.RemoteOptions{})
	req := backend.Request{Group: collective.HostGroup("g", 2)}
	if _, err := b.Plan(t.Context(), req, nil); err != nil {
		t.Errorf("the largest image: %v", err)
	}
	bytes = pluginv1.MaxAnswer
	want := fmt.Sprintf("plan: the answer has %d bytes, an engine takes 75497472 (72 MiB) at most", proto.Size(&pluginv1.PlanResponse{Plan: pluginv1.FromPlan(image(bytes))}))
	_, err := b.Plan(t.Context(), req, nil)
	wantFault(t, err, backend.PlanRejected, want)
	bytes = 1
	if _, err := b.Plan(t.Context(), req, nil); err != nil {
		t.Errorf("the plan after it: %v", err)
	}
}

// foreign is a plugin made without the SDK, which looks at no size.
type foreign struct {
	pluginv1.UnimplementedPluginServiceServer
	out *pluginv1.PlanResponse
	err error
}

func (f *foreign) Plan(context.Context, *pluginv1.PlanRequest) (*pluginv1.PlanResponse, error) {
	return f.out, f.err
}

func (f *foreign) Accept(context.Context, *pluginv1.AcceptRequest) (*pluginv1.AcceptResponse, error) {
	return &pluginv1.AcceptResponse{Verdict: &pluginv1.Verdict{Kind: strings.Repeat("x", pluginv1.MaxAnswer)}}, nil
}

func TestAnswerThatTheConnectionRefuses(t *testing.T) {
	f := &foreign{out: &pluginv1.PlanResponse{Plan: pluginv1.FromPlan(image(pluginv1.MaxAnswer))}}
	client, _ := dial(t, f)
	b := pluginv1.NewRemote(client, backend.Info{Name: "large", Kind: plan.KernelKind}, pluginv1.RemoteOptions{})
	req := backend.Request{Group: collective.HostGroup("g", 2)}
	_, err := b.Plan(t.Context(), req, nil)
	wantFault(t, err, backend.PlanRejected, fmt.Sprintf("plan: the answer has %d bytes, an engine takes 75497472 (72 MiB) at most", proto.Size(f.out)))
	_, err = b.Accept(t.Context(), req)
	wantFault(t, err, backend.Other, "an engine takes 4194304 (4 MiB) at most")
	f.err = status.Error(codes.ResourceExhausted, "no memory for a plan")
	_, err = b.Plan(t.Context(), req, nil)
	wantFault(t, err, backend.Other, "plan: no memory for a plan")
}
