package pluginv1

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-project/weir/core/backend"
)

// toStatus is what a plugin answers for an error of a backend. The code of a backend.Fault travels as a Reason, so that
// the engine records the same decline as for a backend in its own process.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	code := codes.Unknown
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	}
	s := status.New(code, shortened(err.Error()))
	var f *backend.Fault
	if errors.As(err, &f) {
		if detailed, e := s.WithDetails(FromReason(backend.ReasonFor(err))); e == nil {
			s = detailed
		}
	}
	return s.Err()
}

// badInput is the status of a request that makes no sense.
func badInput(format string, args ...any) error {
	return status.Error(codes.InvalidArgument, shortened(fmt.Errorf(format, args...).Error()))
}

// panicked is the status of a call that panicked with v.
func panicked(v any) error {
	return status.Error(codes.Internal, shortened(fmt.Sprintf("panic: %v", v)))
}

// reapTime is how long a broken connection waits for word of how the process ended, which comes from elsewhere.
const reapTime = 250 * time.Millisecond

// toFault is the core error for the failure of a call to a plugin: always a *backend.Fault. life is done, with a cause,
// once the plugin's process has ended.
func toFault(ctx, life context.Context, call string, err error) error {
	s := status.Convert(err)
	f := &backend.Fault{Code: backend.Other, Rank: backend.AnyRank, Err: said(fmt.Errorf("%s: %s", call, s.Message()))}
	for _, d := range s.Details() {
		if m, ok := d.(*Reason); ok {
			if r, err := ToReason(m); err == nil {
				f.Code, f.Rank = r.Code, r.Rank
				return f
			}
		}
	}
	if large := refusedSize(s); large != nil {
		f.Err = fmt.Errorf("%s: %w", call, large)
		if call == callPlan {
			f.Code = backend.PlanRejected
		}
		return f
	}
	switch s.Code() {
	case codes.DeadlineExceeded:
		f.Code, f.Err = backend.Timeout, fmt.Errorf("%s: the plugin did not answer in time: %w", call, context.DeadlineExceeded)
	case codes.Canceled, codes.Unavailable:
		if ctx.Err() != nil {
			f.Code, f.Err = backend.Timeout, fmt.Errorf("%s: given up: %w", call, ctx.Err())
			break
		}
		f.Code = backend.PluginCrashed
		select {
		case <-life.Done():
			f.Err = fmt.Errorf("%s: %w", call, context.Cause(life))
		case <-time.After(reapTime):
		}
	}
	return f
}

// toDescribeError tells a plugin that failed, a *backend.Fault, from one that is not right: another error.
func toDescribeError(ctx, life context.Context, err error) error {
	s := status.Convert(err)
	switch s.Code() {
	case codes.InvalidArgument:
		why := errors.New(shortened(s.Message()))
		if len(s.Details()) > 0 { // of Refusal
			return &DescriptionError{why}
		}
		return why
	case codes.Unimplemented:
		return fmt.Errorf("not a Weir plugin: it does not serve %s", PluginService_ServiceDesc.ServiceName)
	}
	if large := refusedSize(s); large != nil {
		return &DescriptionError{large}
	}
	return toFault(ctx, life, "describe", err)
}
