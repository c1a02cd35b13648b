// Command shouter is a plugin that says too much, or gives orders to terminals; the variable SHOUT says what, NAME what it is called.
package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/grpc"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/plugin"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
)

// orders set the title, clear the screen, go back over a line, turn the direction of writing, and are no UTF-8.
const orders = "\x1b]0;PWNED\a\x1b[2J\rover\u009b31m\x7f\u202e\u2066\u2028"

func main() {
	s := shouter{how: os.Getenv("SHOUT"), name: cmp.Or(os.Getenv("NAME"), "shouter")}
	if s.how == "last words" {
		fmt.Fprintln(os.Stderr, orders+"\x9b31m")
		os.Exit(3)
	}
	if os.Getenv("RAW") != "" {
		os.Exit(s.raw())
	}
	backends := []backend.Backend{s}
	if s.how == "backends" {
		for i := range 100_000 {
			backends = append(backends, shouter{how: s.how, name: fmt.Sprintf("%s-%d", s.name, i)})
		}
	}
	os.Exit(plugin.Serve(plugin.Plugin{Name: s.name, Version: s.version(), Backends: backends}))
}

type shouter struct{ how, name string }

func (s shouter) version() string {
	if s.how == "orders" {
		return "1" + orders
	}
	return "1"
}

func (s shouter) Info() backend.Info {
	i := backend.Info{Name: s.name, Description: "shouts", Kind: plan.ScheduleKind, Priority: 1000}
	if s.how == "orders" {
		i.Description = orders
	}
	return i
}

// reasons are what it declines for.
func (s shouter) reasons() []backend.Reason {
	r := backend.Reason{Code: backend.Other, Rank: backend.AnyRank, Text: "no"}
	switch s.how {
	case "long":
		r.Text = strings.Repeat("A", 60<<20)
	case "many":
		return slices.Repeat([]backend.Reason{r}, 100_000)
	case "orders":
		return []backend.Reason{{Code: backend.Arch, Rank: backend.AnyRank, Observed: orders, Required: orders, Text: orders}}
	}
	return []backend.Reason{r}
}

func (s shouter) Accept(context.Context, backend.Request) (backend.Verdict, error) {
	if s.how == "an error" {
		return backend.Verdict{}, fmt.Errorf("%s\n%s", orders, strings.Repeat("A", 1<<20))
	}
	return backend.Declined(s.reasons()...), nil
}

func (s shouter) Plan(context.Context, backend.Request, []backend.Range) (plan.Plan, error) {
	return nil, fmt.Errorf("%s has no plan", s.name)
}

func (s shouter) Release(context.Context, string) error { return nil }

// raw serves without the SDK, which would keep it from most of this.
func (s shouter) raw() int {
	path := filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), fmt.Sprintf("s-%d", os.Getpid()))
	l, err := net.Listen("unix", path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	server := grpc.NewServer()
	pluginv1.RegisterPluginServiceServer(server, &service{shouter: s})
	fmt.Printf("1|%d|unix|%s|grpc|\n", pluginv1.ProtocolVersion, path)
	if err := server.Serve(l); err != nil {
		return 1
	}
	return 0
}

type service struct {
	pluginv1.UnimplementedPluginServiceServer
	shouter shouter
}

func (s *service) Describe(context.Context, *pluginv1.DescribeRequest) (*pluginv1.DescribeResponse, error) {
	i := s.shouter.Info()
	all := []*pluginv1.Backend{{Name: i.Name, Description: valid(i.Description), Kind: string(i.Kind), Priority: 1000}}
	if s.shouter.how == "backends" {
		for n := range 100_000 {
			all = append(all, &pluginv1.Backend{Name: fmt.Sprintf("%s-%d", i.Name, n), Kind: string(i.Kind)})
		}
	}
	return &pluginv1.DescribeResponse{Name: s.shouter.name, Version: valid(s.shouter.version()), Backends: all}, nil
}

func (s *service) Accept(context.Context, *pluginv1.AcceptRequest) (*pluginv1.AcceptResponse, error) {
	v := &pluginv1.Verdict{Kind: string(backend.Decline)}
	for _, r := range s.shouter.reasons() {
		v.Reasons = append(v.Reasons, &pluginv1.Reason{Code: string(r.Code), Observed: valid(r.Observed), Required: valid(r.Required), Text: valid(r.Text)})
	}
	return &pluginv1.AcceptResponse{Verdict: v}, nil
}

func valid(s string) string { return strings.ToValidUTF8(s, "") }
