// Command resolve has every request class of host memory decided and prints how long that took.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/rank"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintf(os.Stderr, "resolve: %s\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	s, err := rank.Join(ctx, rank.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	g := s.World()
	var took []float64 // milliseconds of the slowest rank
	for _, dt := range collective.DataTypes() {
		if err := g.Barrier(ctx); err != nil {
			return err
		}
		start := time.Now()
		if err := g.Warm(ctx, collective.Class{DataType: dt, Op: collective.Sum}); err != nil {
			return err
		}
		slowest, err := slowest(ctx, g, float64(time.Since(start).Microseconds())/1e3)
		if err != nil {
			return err
		}
		took = append(took, slowest)
	}
	if g.Rank() == 0 {
		first, rest := took[0], slices.Sorted(slices.Values(took[1:]))
		fmt.Printf("resolved: first %.2f ms, then %.2f ms\n", first, rest[len(rest)/2])
	}
	return nil
}

func slowest(ctx context.Context, g *rank.Group, own float64) (float64, error) {
	text, err := json.Marshal(own)
	if err != nil {
		return 0, err
	}
	all, err := g.Exchange(ctx, text)
	if err != nil {
		return 0, err
	}
	for _, t := range all {
		var v float64
		if err := json.Unmarshal(t, &v); err != nil {
			return 0, err
		}
		own = max(own, v)
	}
	return own, nil
}
