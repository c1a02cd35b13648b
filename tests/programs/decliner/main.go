// Command decliner is a plugin whose backend is asked before all others and declines; the variable DECLINER names it.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/plugin"
)

func main() {
	name := os.Getenv("DECLINER")
	os.Exit(plugin.Serve(plugin.Plugin{Name: name, Version: "1", Backends: []backend.Backend{decliner(name)}}))
}

type decliner string

func (d decliner) Info() backend.Info {
	return backend.Info{Name: string(d), Kind: plan.ScheduleKind, Priority: 1000}
}

func (d decliner) Accept(context.Context, backend.Request) (backend.Verdict, error) {
	return backend.Declined(backend.Reason{Code: backend.Other, Rank: backend.AnyRank, Text: "it always does"}), nil
}

func (d decliner) Plan(context.Context, backend.Request, []backend.Range) (plan.Plan, error) {
	return nil, fmt.Errorf("%s has no plan", string(d))
}

func (d decliner) Release(context.Context, string) error { return nil }
