package pluginv1

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plan"
)

// Remote is a backend in a plugin's process. Every error of its calls is a *backend.Fault: PLUGIN_CRASHED once the
// plugin is gone, TIMEOUT past the deadline, PLAN_REJECTED for a plan that makes no sense, the code of a Fault that
// the plugin's own backend returned, OTHER for the rest.
type Remote struct {
	client PluginServiceClient
	info   backend.Info
	opts   RemoteOptions
}

// RemoteOptions is how the calls of a Remote behave.
type RemoteOptions struct {
	Timeout time.Duration // of a call, beside the deadline of its ctx; 0 for none

	// Life is done once the plugin's process has ended; its cause says how. It may be nil. Calls then fail at once.
	Life context.Context
}

// NewRemote is the backend that a plugin advertised with info. It is a backend.Worker if its plans are workers.
func NewRemote(client PluginServiceClient, info backend.Info, opts RemoteOptions) backend.Backend {
	if opts.Life == nil {
		opts.Life = context.Background()
	}
	r := &Remote{client: client, info: info, opts: opts}
	if info.Kind == plan.WorkerKind {
		return &RemoteWorker{Remote: r}
	}
	return r
}

// As is the backend that the same plugin offers, or does not, under other facts of itself.
func (r *Remote) As(info backend.Info) backend.Backend { return NewRemote(r.client, info, r.opts) }

// Info is what the plugin advertised.
func (r *Remote) Info() backend.Info { return r.info }

// Accept asks the plugin.
func (r *Remote) Accept(ctx context.Context, req backend.Request) (backend.Verdict, error) {
	in := &AcceptRequest{
		Backend: r.info.Name, Group: FromGroup(req.Group), Class: FromClass(req.Class), Hypothetical: req.Hypothetical,
	}
	var out *AcceptResponse
	err := r.call(ctx, "accept", func(ctx context.Context) (err error) {
		out, err = r.client.Accept(ctx, in, smallAnswer)
		return err
	})
	if err != nil {
		return backend.Verdict{}, err
	}
	v, err := ToVerdict(out.GetVerdict())
	if err == nil {
		err = v.Validate()
	}
	if err != nil {
		return backend.Verdict{}, fault(backend.Other, fmt.Errorf("accept: invalid verdict: %w", err))
	}
	return v, nil
}

// callPlan is what errors call a call of Plan.
const callPlan = "plan"

// Plan asks the plugin; the plan is of the advertised kind and valid for the group's world size.
func (r *Remote) Plan(ctx context.Context, req backend.Request, ranges []backend.Range) (plan.Plan, error) {
	in := &PlanRequest{
		Backend: r.info.Name, Group: FromGroup(req.Group), Class: FromClass(req.Class), Ranges: FromRanges(ranges),
	}
	var out *PlanResponse
	err := r.call(ctx, callPlan, func(ctx context.Context) (err error) {
		out, err = r.client.Plan(ctx, in)
		return err
	})
	if err != nil {
		return nil, err
	}
	p, err := ToPlan(out.GetPlan())
	switch {
	case err != nil:
	case p.Kind() != r.info.Kind:
		err = fmt.Errorf("a %s, but the backend advertises a %s", p.Kind(), r.info.Kind)
	default:
		err = p.Validate(req.Group.WorldSize())
	}
	if err != nil {
		return nil, fault(backend.PlanRejected, fmt.Errorf("plan: %w", err))
	}
	return p, nil
}

// Release tells the plugin.
func (r *Remote) Release(ctx context.Context, group string) error {
	return r.call(ctx, "release", func(ctx context.Context) error {
		_, err := r.client.Release(ctx, &ReleaseRequest{Backend: r.info.Name, Group: group}, smallAnswer)
		return err
	})
}

// call runs one RPC under the deadline and turns its error into a fault.
func (r *Remote) call(ctx context.Context, what string, rpc func(context.Context) error) error {
	if why := context.Cause(r.opts.Life); why != nil {
		return fault(backend.PluginCrashed, fmt.Errorf("%s: %w", what, why))
	}
	limited := ctx
	if r.opts.Timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, r.opts.Timeout)
		defer cancel()
	}
	if err := rpc(limited); err != nil {
		return toFault(ctx, r.opts.Life, what, err)
	}
	return nil
}

func fault(code backend.Code, err error) error {
	return &backend.Fault{Code: code, Rank: backend.AnyRank, Err: said(err)}
}

// RemoteWorker is a worker backend in a plugin's process.
type RemoteWorker struct{ *Remote }

// Attach tells the plugin.
func (r *RemoteWorker) Attach(ctx context.Context, group, socket string) error {
	return r.call(ctx, "attach", func(ctx context.Context) error {
		_, err := r.client.Attach(ctx, &AttachRequest{Backend: r.info.Name, Group: group, Socket: socket}, smallAnswer)
		return err
	})
}

// Detach tells the plugin.
func (r *RemoteWorker) Detach(ctx context.Context, group string) error {
	return r.call(ctx, "detach", func(ctx context.Context) error {
		_, err := r.client.Detach(ctx, &DetachRequest{Backend: r.info.Name, Group: group}, smallAnswer)
		return err
	})
}

var (
	_ backend.Backend = (*Remote)(nil)
	_ backend.Worker  = (*RemoteWorker)(nil)
)
