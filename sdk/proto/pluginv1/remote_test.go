package pluginv1_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/tests/await"
)

// fake is a backend whose answers a test chooses.
type fake struct {
	info     backend.Info
	accept   func(context.Context, backend.Request) (backend.Verdict, error)
	plan     func(backend.Request, []backend.Range) (plan.Plan, error)
	released string
}

func (f *fake) Info() backend.Info { return f.info }

func (f *fake) Accept(ctx context.Context, req backend.Request) (backend.Verdict, error) {
	return f.accept(ctx, req)
}

func (f *fake) Plan(_ context.Context, req backend.Request, r []backend.Range) (plan.Plan, error) {
	return f.plan(req, r)
}
func (f *fake) Release(_ context.Context, group string) error { f.released = group; return nil }

// fakeWorker is a fake that also works.
type fakeWorker struct {
	*fake
	calls []string
}

func (f *fakeWorker) Attach(_ context.Context, group, socket string) error {
	f.calls = append(f.calls, "attach "+group+" "+socket)
	return nil
}

func (f *fakeWorker) Detach(_ context.Context, group string) error {
	f.calls = append(f.calls, "detach "+group)
	return nil
}

// dial serves over an in-memory connection.
func dial(t *testing.T, service pluginv1.PluginServiceServer) (pluginv1.PluginServiceClient, *grpc.Server) {
	t.Helper()
	lis := bufconn.Listen(1 << 16)
	s := grpc.NewServer()
	pluginv1.RegisterPluginServiceServer(s, service)
	go func() { _ = s.Serve(lis) }()
	t.Cleanup(s.Stop)
	conn, err := grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(pluginv1.MaxAnswer)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return pluginv1.NewPluginServiceClient(conn), s
}

func connect(t *testing.T, b backend.Backend, opts pluginv1.RemoteOptions) backend.Backend {
	t.Helper()
	server, err := pluginv1.NewServer(pluginv1.ServerConfig{Name: "p", Version: "1", Backends: []backend.Backend{b}})
	if err != nil {
		t.Fatal(err)
	}
	client, _ := dial(t, server)
	d, err := pluginv1.Describe(t.Context(), t.Context(), client, nil)
	if err != nil {
		t.Fatal(err)
	}
	return pluginv1.NewRemote(client, d.Backends[0], opts)
}

func TestRemoteIsTheSameBackend(t *testing.T) {
	want := &plan.Worker{SlotBytes: 64, Slots: 1}
	ranges := []backend.Range{{Min: 1, Max: 64}}
	b := &fakeWorker{fake: &fake{info: backend.Info{Name: "w", Kind: plan.WorkerKind, Priority: 3}}}
	var asked backend.Request
	b.accept = func(_ context.Context, req backend.Request) (backend.Verdict, error) {
		asked = req
		return backend.Accepted(ranges...), nil
	}
	b.plan = func(_ backend.Request, got []backend.Range) (plan.Plan, error) {
		if diff := cmp.Diff(ranges, got); diff != "" {
			return nil, errors.New(diff)
		}
		return want, nil
	}
	r := connect(t, b, pluginv1.RemoteOptions{Timeout: await.For(await.Plenty)})
	if diff := cmp.Diff(b.info, r.Info()); diff != "" {
		t.Error(diff)
	}
	req := backend.Request{Group: gpuGroup(), Class: collective.Class{Memory: collective.CUDA, Captured: true}, Hypothetical: true}
	v, err := r.Accept(t.Context(), req)
	if err != nil || !cmp.Equal(v, backend.Accepted(ranges...)) {
		t.Errorf("accept: %v, %v", v, err)
	}
	if diff := cmp.Diff(req, asked); diff != "" {
		t.Error(diff)
	}
	p, err := r.Plan(t.Context(), req, ranges)
	if err != nil || !cmp.Equal(p, plan.Plan(want)) {
		t.Errorf("plan: %v, %v", p, err)
	}
	w := r.(backend.Worker)
	if err := errors.Join(w.Attach(t.Context(), "g", "/s"), w.Detach(t.Context(), "g"), r.Release(t.Context(), "g")); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"attach g /s", "detach g"}, b.calls); diff != "" || b.released != "g" {
		t.Errorf("released %q, %s", b.released, diff)
	}
}

func TestOnlyWorkersAreWorkers(t *testing.T) {
	r := connect(t, &fake{info: backend.Info{Name: "k", Kind: plan.KernelKind}}, pluginv1.RemoteOptions{})
	if _, ok := r.(backend.Worker); ok {
		t.Error("a kernel backend came back as a worker")
	}
}

func TestFaultsOfCalls(t *testing.T) {
	schedule := &plan.Schedule{}
	type result struct {
		v   backend.Verdict
		err error
	}
	for name, c := range map[string]struct {
		accept result
		panics bool
		plan   plan.Plan
		code   backend.Code
		rank   int
		text   string
	}{
		"error":              {accept: result{err: errors.New("no idea")}, code: backend.Other, rank: -1, text: "no idea"},
		"fault keeps code":   {accept: result{err: &backend.Fault{Code: backend.LibMissing, Rank: 2, Err: errors.New("no libx")}}, code: backend.LibMissing, rank: 2, text: "no libx"},
		"panic":              {panics: true, code: backend.Other, rank: -1, text: "panic: oh \\xff"},
		"deadline":           {accept: result{err: fmt.Errorf("probe: %w", context.DeadlineExceeded)}, code: backend.Timeout, rank: -1, text: "in time"},
		"empty verdict":      {code: backend.Other, rank: -1, text: "invalid verdict"},
		"not_asked":          {accept: result{v: backend.Verdict{Kind: backend.NotAsked}}, code: backend.Other, rank: -1, text: "invalid verdict"},
		"impossible range":   {accept: result{v: backend.Accepted(backend.Range{})}, code: backend.Other, rank: -1, text: "impossible byte range"},
		"nil plan":           {accept: result{v: backend.Accepted(backend.AllBytes()...)}, code: backend.PlanRejected, rank: -1, text: "empty plan"},
		"nil pointer plan":   {accept: result{v: backend.Accepted(backend.AllBytes()...)}, plan: (*plan.Schedule)(nil), code: backend.PlanRejected, rank: -1, text: "empty plan"},
		"other kind of plan": {accept: result{v: backend.Accepted(backend.AllBytes()...)}, plan: &plan.Worker{SlotBytes: 64, Slots: 1}, code: backend.PlanRejected, rank: -1, text: "advertises a schedule"},
		"impossible plan":    {accept: result{v: backend.Accepted(backend.AllBytes()...)}, plan: schedule, code: backend.PlanRejected, rank: -1, text: "0 bytes in a tile"},
	} {
		t.Run(name, func(t *testing.T) {
			b := &fake{info: backend.Info{Name: "s", Kind: plan.ScheduleKind}}
			b.accept = func(context.Context, backend.Request) (backend.Verdict, error) {
				if c.panics {
					panic("oh \xff")
				}
				return c.accept.v, c.accept.err
			}
			b.plan = func(backend.Request, []backend.Range) (plan.Plan, error) { return c.plan, nil }
			r := connect(t, b, pluginv1.RemoteOptions{})
			req := backend.Request{Group: collective.HostGroup("g", 2)}
			v, err := r.Accept(t.Context(), req)
			if err == nil {
				_, err = r.Plan(t.Context(), req, v.Ranges)
			}
			wantFault(t, err, c.code, c.text)
			var f *backend.Fault
			if errors.As(err, &f) && f.Rank != c.rank {
				t.Errorf("rank %d, want %d", f.Rank, c.rank)
			}
		})
	}
}

func wantFault(t *testing.T, err error, code backend.Code, text string) {
	t.Helper()
	var f *backend.Fault
	if !errors.As(err, &f) || f.Code != code || !strings.Contains(err.Error(), text) {
		t.Errorf("got %#v (%v), want a %s fault with %q", err, err, code, text)
	}
}

func TestCallTimeout(t *testing.T) {
	b := &fake{info: backend.Info{Name: "s", Kind: plan.ScheduleKind}}
	b.accept = func(ctx context.Context, _ backend.Request) (backend.Verdict, error) {
		<-ctx.Done()
		return backend.Verdict{}, ctx.Err()
	}
	r := connect(t, b, pluginv1.RemoteOptions{Timeout: await.Lapse(20 * time.Millisecond)})
	req := backend.Request{Group: collective.HostGroup("g", 2)}
	_, err := r.Accept(t.Context(), req)
	wantFault(t, err, backend.Timeout, "did not answer in time")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error("the deadline is not in the chain of the error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.Accept(ctx, req)
	wantFault(t, err, backend.Timeout, "given up")
}

func TestGonePlugin(t *testing.T) {
	b := &fake{info: backend.Info{Name: "s", Kind: plan.ScheduleKind}}
	server, err := pluginv1.NewServer(pluginv1.ServerConfig{Name: "p", Backends: []backend.Backend{b}})
	if err != nil {
		t.Fatal(err)
	}
	client, s := dial(t, server)
	life, end := context.WithCancelCause(t.Context())
	b.accept = func(ctx context.Context, _ backend.Request) (backend.Verdict, error) {
		go s.Stop() // the connection breaks in the call
		time.AfterFunc(await.Lapse(time.Millisecond), func() { end(errors.New("exit status 9")) })
		<-ctx.Done()
		return backend.Verdict{}, ctx.Err()
	}
	if _, err := pluginv1.Describe(t.Context(), life, client, nil); err != nil {
		t.Fatal(err)
	}
	r := pluginv1.NewRemote(client, b.info, pluginv1.RemoteOptions{Life: life})
	for range 2 { // in the call, and at once in a later one
		_, err = r.Accept(t.Context(), backend.Request{Group: collective.HostGroup("g", 2)})
		wantFault(t, err, backend.PluginCrashed, "exit status 9")
	}
}

func TestDescribe(t *testing.T) {
	b := &fake{info: backend.Info{Name: "s", Kind: plan.ScheduleKind}}
	calls := 0
	server, err := pluginv1.NewServer(pluginv1.ServerConfig{
		Name: "p", Version: "1.2", Backends: []backend.Backend{b},
		Configure: func(values map[string]any) error {
			calls++
			if diff := cmp.Diff(map[string]any{"list": []any{"a"}, "n": 3.0}, values); diff != "" {
				return errors.New(diff)
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	client, _ := dial(t, server)
	if _, err := client.Accept(t.Context(), &pluginv1.AcceptRequest{Backend: "s"}); err == nil {
		t.Error("a backend was asked before Describe")
	}
	for range 2 {
		d, err := pluginv1.Describe(t.Context(), t.Context(), client, map[string]any{"list": []string{"a"}, "n": 3})
		if err != nil || d.Name != "p" || d.Version != "1.2" || len(d.Backends) != 1 {
			t.Errorf("%+v, %v", d, err)
		}
	}
	if calls != 1 {
		t.Errorf("configured %d times", calls)
	}
	for name, in := range map[string]*pluginv1.AcceptRequest{
		"unknown backend": {Backend: "x"},
		"nil group":       {Backend: "s"},
		"nil class":       {Backend: "s", Group: pluginv1.FromGroup(collective.HostGroup("g", 1))},
	} {
		if _, err := client.Accept(t.Context(), in); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := client.Attach(t.Context(), &pluginv1.AttachRequest{Backend: "s"}); err == nil {
		t.Error("attached to what is no worker")
	}
}

// answer is a plugin service that describes itself as a test says.
type answer struct {
	pluginv1.UnimplementedPluginServiceServer
	describe *pluginv1.DescribeResponse
}

func (a answer) Describe(context.Context, *pluginv1.DescribeRequest) (*pluginv1.DescribeResponse, error) {
	return a.describe, nil
}

func TestDescribeRefuses(t *testing.T) {
	good := &pluginv1.Backend{Name: "s", Kind: "schedule"}
	for name, c := range map[string]struct {
		service pluginv1.PluginServiceServer
		want    string
	}{
		"another service": {pluginv1.UnimplementedPluginServiceServer{}, "not a Weir plugin"},
		"no name":         {answer{describe: &pluginv1.DescribeResponse{Backends: []*pluginv1.Backend{good}}}, "without a name"},
		"no backends":     {answer{describe: &pluginv1.DescribeResponse{Name: "p"}}, "no backends"},
		"unknown kind":    {answer{describe: &pluginv1.DescribeResponse{Name: "p", Backends: []*pluginv1.Backend{{Name: "x", Kind: "?"}}}}, `unknown kind "?"`},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := dial(t, c.service)
			_, err := pluginv1.Describe(t.Context(), t.Context(), client, nil)
			var f *backend.Fault
			if err == nil || errors.As(err, &f) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q that is no fault", err, c.want)
			}
		})
	}
}

// TestRefusal: a server that NewServer refused tells why, as a mistake in the plugin; settings that are wrong are none.
func TestRefusal(t *testing.T) {
	_, refused := pluginv1.NewServer(pluginv1.ServerConfig{Name: "P"})
	taken, err := pluginv1.NewServer(pluginv1.ServerConfig{Name: "p", Backends: []backend.Backend{&fake{info: backend.Info{Name: "a", Kind: plan.ScheduleKind}}}})
	if err != nil {
		t.Fatal(err)
	}
	for want, service := range map[string]*pluginv1.Server{refused.Error(): pluginv1.Refusal(refused), "unknown settings x: the plugin has none": taken} {
		client, _ := dial(t, service)
		_, err := pluginv1.Describe(t.Context(), t.Context(), client, map[string]any{"x": 1})
		var wrong *pluginv1.DescriptionError
		var fault *backend.Fault
		if err == nil || err.Error() != want || errors.As(err, &fault) || errors.As(err, &wrong) != (service != taken) {
			t.Errorf("got %#v (%v), want %q", err, err, want)
		}
	}
}

func TestNewServerChecksNames(t *testing.T) {
	named := func(name string) backend.Backend {
		return &fake{info: backend.Info{Name: name, Kind: plan.ScheduleKind}}
	}
	for want, c := range map[string]pluginv1.ServerConfig{
		"without a name": {Backends: []backend.Backend{named("a")}},
		"lower-case":     {Name: "P", Backends: []backend.Backend{named("a")}},
		"no backends":    {Name: "p"},
		"is nil":         {Name: "p", Backends: []backend.Backend{nil}},
		"backend 0":      {Name: "p", Backends: []backend.Backend{named("a_b")}},
		"two backends":   {Name: "p", Backends: []backend.Backend{named("a"), named("a")}},
	} {
		if _, err := pluginv1.NewServer(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
