package pluginv1_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plain"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
)

// enemy is a plugin made without the SDK, which answers what a test wants.
type enemy struct {
	pluginv1.UnimplementedPluginServiceServer
	describe *pluginv1.DescribeResponse
	accept   *pluginv1.AcceptResponse
	err      error
}

func (e *enemy) Describe(context.Context, *pluginv1.DescribeRequest) (*pluginv1.DescribeResponse, error) {
	return e.describe, e.err
}

func (e *enemy) Accept(context.Context, *pluginv1.AcceptRequest) (*pluginv1.AcceptResponse, error) {
	return e.accept, e.err
}

func declining(reasons ...*pluginv1.Reason) *pluginv1.AcceptResponse {
	return &pluginv1.AcceptResponse{Verdict: &pluginv1.Verdict{Kind: "decline", Reasons: reasons}}
}

const orders = "\x1b]0;PWNED\a\x1b[2J\r\u009b\u202e\u2028"

func checkPlain(t *testing.T, what, s string) {
	t.Helper()
	if plain.Line(s) != s || len(s) > backend.MaxReasonBytes+100 {
		t.Errorf("%s: %d bytes, %.100q", what, len(s), s)
	}
}

// TestReasonsOfAnEnemy: a decline stays a decline, whatever it says.
func TestReasonsOfAnEnemy(t *testing.T) {
	long, short := strings.Repeat("A", 1<<20), &pluginv1.Reason{Code: "OTHER", Text: "no"}
	for name, c := range map[string]struct {
		reasons []*pluginv1.Reason
		want    string // of the last
		n       int
	}{
		"long":    {[]*pluginv1.Reason{{Code: "ARCH", Observed: long, Required: long, Text: long}}, "AAA…", 1},
		"orders":  {[]*pluginv1.Reason{{Code: "ARCH", Observed: orders, Required: orders, Text: orders}}, `\u001b]0;PWNED`, 1},
		"sixteen": {slices.Repeat([]*pluginv1.Reason{short}, 16), "no", 16},
		"many":    {slices.Repeat([]*pluginv1.Reason{short}, 100_000), "and 99984 more reasons", 17},
	} {
		client, _ := dial(t, &enemy{accept: declining(c.reasons...)})
		b := pluginv1.NewRemote(client, backend.Info{Name: "e", Kind: plan.ScheduleKind}, pluginv1.RemoteOptions{})
		v, err := b.Accept(t.Context(), backend.Request{Group: collective.HostGroup("g", 2)})
		if err != nil || v.Kind != backend.Decline || len(v.Reasons) != c.n || v.Reasons[0].Code != backend.Code(c.reasons[0].Code) {
			t.Errorf("%s: %v, %d reasons, %.200s", name, err, len(v.Reasons), v)
			continue
		}
		if last := v.Reasons[c.n-1].String(); !strings.Contains(last, c.want) {
			t.Errorf("%s: %q, want %q", name, last, c.want)
		}
		for _, r := range v.Reasons {
			checkPlain(t, name, r.String())
		}
		if n := proto.Size(pluginv1.FromVerdict(v)); n > 20<<10 {
			t.Errorf("%s: every rank is told %d bytes", name, n)
		}
	}
}

// TestErrorsOfAnEnemy: nor has an error more to say.
func TestErrorsOfAnEnemy(t *testing.T) {
	long := strings.Repeat("A", 1<<20)
	detailed, err := status.New(codes.Unknown, orders).WithDetails(&pluginv1.Reason{Code: "ARCH", Text: long})
	if err != nil {
		t.Fatal(err)
	}
	for name, e := range map[string]*enemy{
		"huge":         {accept: declining(&pluginv1.Reason{Code: "OTHER", Text: strings.Repeat("A", 60<<20)})},
		"code":         {accept: declining(&pluginv1.Reason{Code: long})},
		"kind":         {accept: &pluginv1.AcceptResponse{Verdict: &pluginv1.Verdict{Kind: long}}},
		"status":       {err: status.Error(codes.Unknown, long[:6000]+orders)},
		"with details": {err: detailed.Err()},
		"exhausted":    {err: status.Error(codes.ResourceExhausted, orders)},
	} {
		client, _ := dial(t, e)
		b := pluginv1.NewRemote(client, backend.Info{Name: "e", Kind: plan.ScheduleKind}, pluginv1.RemoteOptions{})
		_, err := b.Accept(t.Context(), backend.Request{Group: collective.HostGroup("g", 2)})
		var f *backend.Fault
		if !errors.As(err, &f) {
			t.Errorf("%s: %.100v", name, err)
			continue
		}
		checkPlain(t, name, err.Error())
		checkPlain(t, name, backend.ReasonFor(err).String())
	}
}

// TestDescriptionsOfAnEnemy: who offers more than anybody is refused, in words, before it takes time or memory.
func TestDescriptionsOfAnEnemy(t *testing.T) {
	offer := func(change func(*pluginv1.Backend)) []*pluginv1.Backend {
		b := &pluginv1.Backend{Name: "e", Kind: "schedule", Requirements: &pluginv1.Requirements{}}
		change(b)
		return []*pluginv1.Backend{b}
	}
	needs := func(change func(*pluginv1.Requirements)) []*pluginv1.Backend {
		return offer(func(b *pluginv1.Backend) { change(b.Requirements) })
	}
	many := func(n int) (all []*pluginv1.Backend) {
		for i := range n {
			all = append(all, &pluginv1.Backend{Name: fmt.Sprintf("e%d", i), Kind: "schedule"})
		}
		return all
	}
	long, window := strings.Repeat("a", 5000), &pluginv1.Window{Range: &pluginv1.Range{Min: 1, Max: 2}}
	for name, c := range map[string]struct {
		name, version string
		backends      []*pluginv1.Backend
		want          string
	}{
		"as many as may be":  {backends: many(256)},
		"one more":           {backends: many(257), want: "offers 257 backends, a plugin at most 256"},
		"100 000":            {backends: many(100_000), want: "offers 100000 backends, a plugin at most 256"},
		"a million":          {backends: many(1_000_000), want: "the answer has 20888893 bytes, an engine takes 4194304 (4 MiB) at most"},
		"name":               {name: long, backends: many(1), want: `name of 5000 bytes ("aaaaaaaaa`},
		"version":            {version: long, backends: many(1), want: "version of 5000 bytes, at most 128"},
		"backend's name":     {backends: offer(func(b *pluginv1.Backend) { b.Name = long }), want: "name of 5000 bytes"},
		"description":        {backends: offer(func(b *pluginv1.Backend) { b.Description = long }), want: "description of 5000 bytes, at most 1024"},
		"kind":               {backends: offer(func(b *pluginv1.Backend) { b.Kind = long }), want: `unknown kind "aaa`},
		"vendors":            {backends: needs(func(q *pluginv1.Requirements) { q.Vendors = make([]string, 257) }), want: "vendors has 257 entries, at most 256"},
		"a vendor":           {backends: needs(func(q *pluginv1.Requirements) { q.Vendors = []string{long} }), want: "vendors 0 has 5000 bytes, at most 256"},
		"an order":           {backends: needs(func(q *pluginv1.Requirements) { q.Platforms = []string{"linux/" + orders} }), want: "platforms 0 has control characters"},
		"driver":             {backends: needs(func(q *pluginv1.Requirements) { q.Driver = long }), want: "driver 0 has 5000 bytes"},
		"types":              {backends: needs(func(q *pluginv1.Requirements) { q.DataTypes = slices.Repeat([]string{"int8"}, 300) }), want: "data_types has 300 entries"},
		"spans":              {backends: needs(func(q *pluginv1.Requirements) { q.WorldSizes = make([]*pluginv1.Span, 300) }), want: "world_sizes has 300 entries"},
		"windows":            {backends: needs(func(q *pluginv1.Requirements) { q.Windows = slices.Repeat([]*pluginv1.Window{window}, 300) }), want: "windows has 300 entries"},
		"library":            {backends: needs(func(q *pluginv1.Requirements) { q.Libraries = []*pluginv1.Library{{Name: long}} }), want: "libraries 0 has 5000 bytes"},
		"window's text":      {backends: needs(func(q *pluginv1.Requirements) { q.Windows = []*pluginv1.Window{{Link: long, Range: window.Range}} }), want: "windows 2 has 5000 bytes"},
		"scope":              {backends: needs(func(q *pluginv1.Requirements) { q.Scope = long }), want: "scope, p2p or placement 0 has 5000 bytes"},
		"orders in words":    {version: "1" + orders, backends: offer(func(b *pluginv1.Backend) { b.Description = orders })},
		"orders in its name": {name: "e" + orders, backends: many(1), want: `advertises itself name "e\x1b]0;PWNED`},
	} {
		if c.name == "" {
			c.name = "e"
		}
		client, _ := dial(t, &enemy{describe: &pluginv1.DescribeResponse{Name: c.name, Version: c.version, Backends: c.backends}})
		d, err := pluginv1.Describe(t.Context(), t.Context(), client, nil)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %.200v, want %q", name, err, c.want)
		}
		if refused := (*pluginv1.DescriptionError)(nil); err != nil && !errors.As(err, &refused) {
			t.Errorf("%s: %T is not for the plugin's author", name, err)
		}
		if err != nil {
			checkPlain(t, name, err.Error())
			continue
		}
		checkPlain(t, name, d.Version)
		for _, b := range d.Backends {
			checkPlain(t, name, b.Description)
		}
	}
}

// TestServerOfTooMany: the SDK says the same to whoever writes such a plugin.
func TestServerOfTooMany(t *testing.T) {
	var all []backend.Backend
	for i := range 257 {
		all = append(all, &fake{info: backend.Info{Name: fmt.Sprintf("b%d", i), Kind: plan.ScheduleKind}})
	}
	if _, err := pluginv1.NewServer(pluginv1.ServerConfig{Name: "p", Backends: all}); err == nil || err.Error() != "plugin p: offers 257 backends, a plugin at most 256" {
		t.Error(err)
	}
}

// FuzzEnemy has bytes be what a plugin answers: what is taken of them is bounded and plain, and so is what is said of the rest.
func FuzzEnemy(f *testing.F) {
	add := func(m proto.Message) {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	add(declining(slices.Repeat([]*pluginv1.Reason{{Code: "OTHER", Text: "\x1b[2J", Observed: "\u202e"}}, 20)...).Verdict)
	add(&pluginv1.Backend{Name: "e", Kind: "schedule", Description: "\x1b[2J", Requirements: &pluginv1.Requirements{Vendors: []string{"\r"}, Driver: "\x7f"}})
	f.Fuzz(func(t *testing.T, data []byte) {
		verdict, offer := &pluginv1.Verdict{}, &pluginv1.Backend{}
		if proto.Unmarshal(data, verdict) == nil {
			v, err := pluginv1.ToVerdict(verdict)
			if err != nil {
				checkPlain(t, "reason", backend.ReasonFor(err).String())
			}
			if len(v.Reasons) > backend.MaxReasons+1 {
				t.Errorf("%d reasons", len(v.Reasons))
			}
			for _, r := range v.Reasons {
				checkPlain(t, "reason", r.String())
			}
		}
		if proto.Unmarshal(data, offer) == nil {
			i, err := pluginv1.ToInfo(offer)
			if err != nil {
				return
			}
			for _, need := range append(i.Requirements.Describe(), i.Name, i.Description) {
				if plain.Line(need) != need {
					t.Errorf("%q", need)
				}
			}
		}
	})
}
