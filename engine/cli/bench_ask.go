package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/engine/bench"
	"github.com/weir-project/weir/engine/config"
	"github.com/weir-project/weir/engine/explain"
	"github.com/weir-project/weir/engine/p2p"
	"github.com/weir-project/weir/sdk/rank"
)

// ask asks every backend about every class, as `weir explain` does, for the group that the ranks will be.
func (j *benchJob) ask(ctx context.Context) {
	e := j.engine
	ranks := j.placed()
	j.prove(ctx, ranks)
	group := agent.GroupFacts("bench", ranks, e.topology, e.wishes())
	candidates := lo.Map(e.candidates(), func(c dispatch.Candidate, _ int) dispatch.Candidate {
		c.Reserve = c.Reserve && c.Info.Name != j.flags.backend // asked for by its name it answers
		return c
	})
	j.expected = map[collective.Class]dispatch.Decision{}
	for _, class := range j.spec.Classes() {
		j.expected[class] = dispatch.Resolve(ctx, candidates, group, class, dispatch.Options{Policy: e.policy, AskAll: true})
	}
}

// answered are the backends that have.
func (j *benchJob) answered() []string {
	return lo.Uniq(lo.FlatMap(j.spec.Classes(), func(c collective.Class, _ int) []string {
		return lo.Map(j.expected[c].Answers, func(a dispatch.Answer, _ int) string { return a.Backend })
	}))
}

// backends are those to pin, one after the other; "" stands for none.
func (j *benchJob) backends() ([]string, error) {
	names := lo.Map(j.engine.candidates(), func(c dispatch.Candidate, _ int) string { return c.Info.Name })
	switch {
	case j.flags.backend == "":
		names = j.answered()
		serving := lo.Filter(names, func(n string, _ int) bool { return j.serves(n) == nil })
		if len(serving) == 0 {
			return nil, fmt.Errorf("no backend serves any of the sizes: %s", strings.Join(lo.Map(names, func(n string, _ int) string {
				return j.serves(n).Error()
			}), "; "))
		}
		if j.flags.all {
			return j.inCascadeOrder(serving), nil
		}
		return []string{""}, nil
	case !slices.Contains(names, j.flags.backend):
		return nil, usageError{fmt.Errorf("--backend: no plugin offers %q; there are %s", j.flags.backend, strings.Join(names, ", "))}
	}
	return []string{j.flags.backend}, j.serves(j.flags.backend)
}

func (j *benchJob) inCascadeOrder(names []string) []string {
	order := j.expected[j.spec.Classes()[0]].Answers
	return lo.Filter(lo.Map(order, func(a dispatch.Answer, _ int) string { return a.Backend }), func(n string, _ int) bool {
		return slices.Contains(names, n)
	})
}

// serves says why a backend serves no size of any class; nil if it serves one.
func (j *benchJob) serves(name string) error {
	var why []string
	for _, class := range j.spec.Classes() {
		a, _ := lo.Find(j.expected[class].Answers, func(a dispatch.Answer) bool { return a.Backend == name })
		if a.Verdict.Kind != backend.Accept {
			why = append(why, fmt.Sprintf("backend %s does not serve %s of %s: %s", name, class, backend.Count(j.flags.ranks, "rank"), reasonList(a.Verdict)))
			continue
		}
		if slices.ContainsFunc(j.spec.Cells(class), func(c bench.Cell) bool {
			return slices.ContainsFunc(a.Verdict.Ranges, func(r backend.Range) bool { return r.Contains(c.Bytes) })
		}) {
			return nil
		}
		why = append(why, fmt.Sprintf("backend %s serves %s of %s for %s only, none of the sizes asked for", name, class, backend.Count(j.flags.ranks, "rank"),
			explain.RangeList(a.Verdict.Ranges)))
	}
	return fmt.Errorf("%s", strings.Join(lo.Uniq(why), "; "))
}

func reasonList(v backend.Verdict) string {
	return strings.Join(lo.Map(v.Reasons, func(r backend.Reason, _ int) string { return r.String() }), "; ")
}

// placed are the ranks with the GPUs that they will take, if they take any.
func (j *benchJob) placed() []collective.Rank {
	ranks := make([]collective.Rank, j.flags.ranks)
	devices := j.engine.topology.Devices
	if j.spec.Memory != collective.CUDA || len(devices) == 0 {
		return ranks
	}
	for r := range ranks {
		index := r % len(devices)
		if own, err := strconv.Atoi(benchDevice()); err == nil {
			index = own
		}
		if d, ok := lo.Find(devices, func(d topology.Device) bool { return d.Index == index }); ok {
			ranks[r].Device = &d
		}
	}
	return ranks
}

// benchDevice is what ranks of a benchmark join with.
func benchDevice() string { return cmp.Or(os.Getenv(rank.EnvDevice), rank.DeviceAuto) }

// prove has peer-to-peer access proved before backends are asked, where the ranks' groups would have it proved.
func (j *benchJob) prove(ctx context.Context, ranks []collective.Rank) {
	e := j.engine
	needed := slices.ContainsFunc(e.host.Candidates(), func(c dispatch.Candidate) bool {
		return c.Info.Requirements.P2P == topology.P2PVerified && !slices.Contains(e.policy.Disabled, c.Info.Name)
	})
	if e.config.P2P.Verify == config.VerifyOff || !needed || lo.SomeBy(ranks, func(r collective.Rank) bool { return r.Device == nil }) {
		return
	}
	devices := lo.UniqBy(lo.Map(ranks, func(r collective.Rank, _ int) topology.Device { return *r.Device }), topology.Device.Identity)
	left := lo.Filter(p2p.Directions(len(devices)), func(d p2p.Direction, _ int) bool {
		known, _ := e.topology.Evidence(devices[d.From], devices[d.To])
		return known == topology.P2PReported
	})
	if len(left) > 0 {
		e.topology = e.topology.WithProofs(j.app.prove(e, false)(ctx, devices, left))
	}
}
