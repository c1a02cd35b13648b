package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/weir-project/weir/sdk/rank"
)

// group is one of some ranks, known to all of them.
type group struct {
	ranks []int
	group *rank.Group // nil if this rank is no member
}

// regroupEvery is after how many calls a group is left and another is made in its place.
const regroupEvery = 128

// regroup makes the groups before the first call, and one of them anew now and then.
func (p *program) regroup(ctx context.Context, number int) error {
	switch {
	case p.options.groups == 0:
		return nil
	case number == 1:
		for range p.options.groups {
			p.groups = append(p.groups, &group{})
			if err := p.renew(ctx, p.groups[len(p.groups)-1]); err != nil {
				return err
			}
		}
	case number%regroupEvery == 0:
		return p.renew(ctx, p.groups[p.same.IntN(len(p.groups))])
	}
	return nil
}

func (p *program) renew(ctx context.Context, g *group) error {
	if g.group != nil {
		if err := g.group.Close(); err != nil {
			return err
		}
	}
	world := p.session.World()
	*g = group{ranks: some(p.same, world.Size())}
	if !slices.Contains(g.ranks, world.Rank()) {
		return nil
	}
	made, err := p.session.NewGroup(ctx, g.ranks)
	if err != nil {
		return fmt.Errorf("group of ranks %v: %w", g.ranks, err)
	}
	g.group = made
	return nil
}

// some are at least two of so many ranks, in any order.
func some(r *rand.Rand, world int) []int {
	return r.Perm(world)[:min(world, 2+r.IntN(world))]
}

// choose is the group of a call; nil if this rank is no member.
func (p *program) choose() *rank.Group {
	if len(p.groups) == 0 || p.same.IntN(2) == 0 {
		return p.session.World()
	}
	return p.groups[p.same.IntN(len(p.groups))].group
}

func (p *program) close() error { return p.device.close() }
