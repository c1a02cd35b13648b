package pluginv1

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
)

// Server answers an engine on behalf of backends. A panic in a backend becomes the error of that one call.
type Server struct {
	UnimplementedPluginServiceServer
	plugin   ServerConfig
	byName   map[string]backend.Backend
	ready    atomic.Bool // Describe has succeeded
	describe func(*structpb.Struct) (*DescribeResponse, error)
}

// ServerConfig is what a Server offers.
type ServerConfig struct {
	Name, Version string
	Backends      []backend.Backend
	// Configure is called once, with the settings of the first Describe; it may be nil. Until it has succeeded no
	// backend is asked anything but its Info.
	Configure func(settings map[string]any) error
}

// NewServer checks the names: those of plugin and backends are well formed, and no two backends share one.
func NewServer(c ServerConfig) (*Server, error) {
	if err := CheckName(c.Name); err != nil {
		return nil, fmt.Errorf("plugin %w", err)
	}
	if len(c.Backends) == 0 {
		return nil, fmt.Errorf("plugin %s: no backends", c.Name)
	}
	if err := checkCount(len(c.Backends)); err != nil {
		return nil, fmt.Errorf("plugin %s: %w", c.Name, err)
	}
	s := &Server{plugin: c, byName: make(map[string]backend.Backend, len(c.Backends))}
	for i, b := range c.Backends {
		if b == nil {
			return nil, fmt.Errorf("plugin %s: backend %d is nil", c.Name, i)
		}
		name := b.Info().Name
		if err := CheckName(name); err != nil {
			return nil, fmt.Errorf("plugin %s: backend %d: %w", c.Name, i, err)
		}
		if _, twice := s.byName[name]; twice {
			return nil, fmt.Errorf("plugin %s: two backends are named %q", c.Name, name)
		}
		s.byName[name] = b
	}
	s.describe = s.describeOnce()
	return s, nil
}

// Refusal is a server for a plugin that NewServer refused: its Describe fails with why. So the engine hears of a mistake in the
// plugin, which somebody must mend, and does not take it for a process that crashed.
func Refusal(why error) *Server {
	s := status.New(codes.InvalidArgument, shortened(why.Error()))
	if detailed, err := s.WithDetails(FromReason(backend.ReasonFor(why))); err == nil { // tells it from settings that are wrong
		s = detailed
	}
	return &Server{describe: func(*structpb.Struct) (*DescribeResponse, error) { return nil, s.Err() }}
}

// describeOnce configures with the settings of the first call and gives every call the same answer.
func (s *Server) describeOnce() func(*structpb.Struct) (*DescribeResponse, error) {
	var (
		once sync.Once
		out  *DescribeResponse
		err  error
	)
	return func(settings *structpb.Struct) (*DescribeResponse, error) {
		once.Do(func() {
			out, err = guard("configure", func() (*DescribeResponse, error) { return s.configure(settings) })
		})
		return out, err
	}
}

func (s *Server) configure(settings *structpb.Struct) (*DescribeResponse, error) {
	switch configure, values := s.plugin.Configure, settings.AsMap(); {
	case configure != nil:
		if err := configure(values); err != nil {
			return nil, badInput("%w", err)
		}
	case len(values) > 0:
		return nil, badInput("unknown settings %s: the plugin has none", strings.Join(slices.Sorted(maps.Keys(values)), ", "))
	}
	s.ready.Store(true)
	return &DescribeResponse{
		Name: s.plugin.Name, Version: text(s.plugin.Version),
		Backends: each(s.plugin.Backends, func(b backend.Backend) *Backend { return FromInfo(b.Info()) }),
	}, nil
}

// Describe configures the plugin and lists its backends.
func (s *Server) Describe(_ context.Context, in *DescribeRequest) (*DescribeResponse, error) {
	return s.describe(in.GetSettings())
}

// Accept asks the backend.
func (s *Server) Accept(ctx context.Context, in *AcceptRequest) (*AcceptResponse, error) {
	return guard("accept", func() (*AcceptResponse, error) {
		b, req, err := s.request(in.GetBackend(), in.GetGroup(), in.GetClass())
		if err != nil {
			return nil, err
		}
		req.Hypothetical = in.GetHypothetical()
		v, err := b.Accept(ctx, req)
		if err != nil {
			return nil, err
		}
		return &AcceptResponse{Verdict: FromVerdict(v)}, nil
	})
}

// Plan asks the backend.
func (s *Server) Plan(ctx context.Context, in *PlanRequest) (*PlanResponse, error) {
	return guard("plan", func() (*PlanResponse, error) {
		b, req, err := s.request(in.GetBackend(), in.GetGroup(), in.GetClass())
		if err != nil {
			return nil, err
		}
		ranges, err := ToRanges(in.GetRanges())
		if err != nil {
			return nil, badInput("%w", err)
		}
		p, err := b.Plan(ctx, req, ranges)
		if err != nil {
			return nil, err
		}
		out := &PlanResponse{Plan: FromPlan(p)}
		return out, checkSize(out)
	})
}

// Release tells the backend.
func (s *Server) Release(ctx context.Context, in *ReleaseRequest) (*ReleaseResponse, error) {
	return guard("release", func() (*ReleaseResponse, error) {
		b, err := s.backend(in.GetBackend())
		if err != nil {
			return nil, err
		}
		return &ReleaseResponse{}, b.Release(ctx, in.GetGroup())
	})
}

// Attach tells a worker backend.
func (s *Server) Attach(ctx context.Context, in *AttachRequest) (*AttachResponse, error) {
	return guard("attach", func() (*AttachResponse, error) {
		w, err := s.worker(in.GetBackend())
		if err != nil {
			return nil, err
		}
		return &AttachResponse{}, w.Attach(ctx, in.GetGroup(), in.GetSocket())
	})
}

// Detach tells a worker backend.
func (s *Server) Detach(ctx context.Context, in *DetachRequest) (*DetachResponse, error) {
	return guard("detach", func() (*DetachResponse, error) {
		w, err := s.worker(in.GetBackend())
		if err != nil {
			return nil, err
		}
		return &DetachResponse{}, w.Detach(ctx, in.GetGroup())
	})
}

// request finds the backend and reads the question.
func (s *Server) request(name string, group *Group, class *Class) (backend.Backend, backend.Request, error) {
	b, err := s.backend(name)
	if err != nil {
		return nil, backend.Request{}, err
	}
	g, err := ToGroup(group)
	var c collective.Class
	if err == nil {
		c, err = ToClass(class)
	}
	if err != nil {
		return nil, backend.Request{}, badInput("%w", err)
	}
	return b, backend.Request{Group: g, Class: c}, nil
}

func (s *Server) backend(name string) (backend.Backend, error) {
	if !s.ready.Load() {
		return nil, badInput("plugin %s has not been asked to describe itself yet", s.plugin.Name)
	}
	b, ok := s.byName[name]
	if !ok {
		return nil, badInput("plugin %s has no backend %q", s.plugin.Name, name)
	}
	return b, nil
}

func (s *Server) worker(name string) (backend.Worker, error) {
	b, err := s.backend(name)
	if err != nil {
		return nil, err
	}
	w, ok := b.(backend.Worker)
	if !ok {
		return nil, badInput("backend %s is not a worker", name)
	}
	return w, nil
}

// guard runs one call, turns its error into a status and a panic into an error that names it.
func guard[T any](call string, f func() (*T, error)) (out *T, err error) {
	defer func() {
		if p := recover(); p != nil {
			slog.Error("panic in a plugin call", "call", call, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			out, err = nil, panicked(p)
		}
	}()
	if out, err = f(); err != nil {
		return nil, toStatus(err)
	}
	return out, nil
}

var _ PluginServiceServer = (*Server)(nil)
