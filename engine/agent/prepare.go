package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/samber/lo"
	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/engine/telemetry"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/sdk/proto/rankv1"
	"github.com/weir-project/weir/sdk/proto/workerv1"
)

// instance is a plan that the group runs for one class, with memory of its own: nothing that happens while it is tried
// can disturb the plans of classes that are decided.
type instance struct {
	id      uint64
	backend string
	plan    *pluginv1.Plan
	bytes   int64    // of shared memory
	file    *os.File // the memory, until every rank has it; nil if the plan needs none
	service *service // of a worker's
	key     string   // of a kernel plan: the group's instances with the same key share memory
	plugin  string
	process uint64 // of the plugin, that made the plan
	reserve bool   // the backend is there for what no plugin serves
	freed   bool
}

// instance makes an instance of a plan of a plugin's backend.
func (g *group) instance(c dispatch.Candidate, p plan.Plan) (*instance, error) {
	i := &instance{backend: c.Info.Name, plugin: c.Plugin, process: c.Process, reserve: c.Reserve, plan: pluginv1.FromPlan(p)}
	var shape workerv1.Shape
	g.mu.Lock()
	defer g.mu.Unlock()
	switch p := p.(type) {
	case *plan.Schedule:
		i.bytes = p.MemoryBytes()
	case *plan.Worker:
		shape = workerv1.ShapeOf(p, len(g.ranks))
		i.bytes = shape.ControlBytes() + shape.InputBytes()
	case *plan.Kernel:
		if i.key = p.Key(); g.kernels[i.key] == 0 {
			i.bytes = p.HostStride() * int64(len(g.ranks))
		}
	}
	if limit := g.job.agent.opts.MaxShared; g.shared+i.bytes > limit {
		return nil, &backend.Fault{Code: backend.PlanRejected, Rank: backend.AnyRank, Err: fmt.Errorf(
			"the plan needs %d bytes of shared memory, the group has %d of its %d left (shared.max_bytes)", i.bytes, limit-g.shared, limit)}
	}
	g.lastID++
	i.id = g.lastID
	if shape.World > 0 {
		if err := g.newService(i, shape); err != nil {
			return nil, err
		}
	} else if i.bytes > 0 {
		var err error
		if i.file, err = newShared("weir-"+i.backend, i.bytes); err != nil {
			return nil, &backend.Fault{Code: backend.InitFailed, Rank: backend.AnyRank, Err: err}
		}
	}
	g.shared += i.bytes
	if i.key != "" {
		g.kernels[i.key]++
	}
	return i, nil
}

// fit refuses plans that are too large together for the message that brings them to the ranks.
func (r *resolution) fit(chosen map[int]*instance) error {
	limit := cmp.Or(r.group.job.agent.opts.maxPlans, rankv1.MaxPlans)
	total := lo.SumBy(lo.Values(chosen), func(x *instance) int { return proto.Size(x.plan) })
	if total <= limit {
		return nil
	}
	return &backend.Fault{Code: backend.PlanRejected, Rank: backend.AnyRank, Err: fmt.Errorf(
		"with it the plans of this request class have %d bytes, which reach the ranks in one message of %d at most", total, limit)}
}

// steps has every rank prepare the instances, then run them on inputs with known sums. It returns the backends that
// failed in a rank; the error is a group that cannot go on.
func (r *resolution) steps(ctx context.Context, d dispatch.Decision, chosen map[int]*instance) (map[string][]backend.Reason, error) {
	opts := r.group.job.agent.opts
	order := lo.Filter(d.Table.Chosen(), func(i, _ int) bool { return chosen[i] != nil })
	prepare := &rankv1.Prepare{}
	var files []*os.File
	for _, i := range order {
		x := chosen[i]
		prepare.Instances = append(prepare.Instances, &rankv1.Instance{
			Id: x.id, Backend: x.backend, Plan: x.plan, Memory: x.file != nil || x.service != nil, Ranges: pluginv1.FromRanges(d.Table.Ranges(i)),
			Inputs: x.service != nil, WorkerPatienceNs: int64(opts.WorkerDeadline),
		})
		switch {
		case x.file != nil:
			files = append(files, x.file)
		case x.service != nil:
			files = append(files, x.service.files.Control, x.service.files.Inputs)
		}
	}
	done, failed, err := r.step(telemetry.Prepare, opts.PrepareDeadline, chosen, func(m *member, id uint64) error {
		return m.conn.Send(&rankv1.ToRank{Id: id, Body: &rankv1.ToRank_Prepare{Prepare: prepare}}, files...)
	})
	for _, x := range chosen {
		x.closeFile() // every rank has it, or the backend has failed
	}
	defer closeFiles(done)
	if err != nil || len(failed) > 0 {
		return failed, err
	}
	if failed, err := r.connect(done, chosen); err != nil || len(failed) > 0 {
		return failed, err
	}
	if failed := r.attach(ctx, chosen); len(failed) > 0 {
		return failed, nil
	}
	test := &rankv1.SelfTest{DeadlineNs: int64(opts.SelfTestDeadline), Abort: opts.TryAbort}
	_, failed, err = r.step(telemetry.SelfTest, opts.SelfTestDeadline, chosen, func(m *member, id uint64) error {
		return m.conn.Send(&rankv1.ToRank{Id: id, Body: &rankv1.ToRank_SelfTest{SelfTest: test}})
	})
	for _, x := range chosen {
		if failed[x.backend] != nil && x.service != nil && x.service.isGone() { // why it failed, rather than that
			failed[x.backend] = []backend.Reason{backend.ReasonFor(x.service.fault())}
		}
	}
	return failed, err
}

// connect gives every rank what all said of the instances when they prepared them, if they had anything to say.
func (r *resolution) connect(prepared []stepReport, chosen map[int]*instance) (map[string][]backend.Reason, error) {
	connect := &rankv1.Connect{DeadlineNs: int64(r.group.job.agent.opts.PrepareDeadline)}
	some := map[int]*instance{}
	var files []*os.File
	for _, i := range slices.Sorted(maps.Keys(chosen)) {
		x := chosen[i]
		peers := &rankv1.Peers{Instance: x.id}
		for _, p := range prepared {
			o, _ := lo.Find(p.done.Outcomes, func(o *rankv1.Outcome) bool { return o.Instance == x.id })
			f := p.files[x.id]
			peers.Data, peers.Files = append(peers.Data, o.GetData()), append(peers.Files, f != nil)
			if f != nil {
				files = append(files, f)
			}
		}
		if slices.ContainsFunc(peers.Data, func(data []byte) bool { return len(data) > 0 }) {
			connect.Instances = append(connect.Instances, peers)
			some[i] = x
		}
	}
	if len(some) == 0 {
		return nil, nil
	}
	_, failed, err := r.step(telemetry.Connect, r.group.job.agent.opts.PrepareDeadline, some, func(m *member, id uint64) error {
		return m.conn.Send(&rankv1.ToRank{Id: id, Body: &rankv1.ToRank_Connect{Connect: connect}}, files...)
	})
	return failed, err
}

// discard has the ranks drop instances that will not be committed.
func (r *resolution) discard(instances map[int]*instance) error {
	r.free(instances)
	ids := lo.MapToSlice(instances, func(_ int, x *instance) uint64 { return x.id })
	if len(ids) == 0 {
		return nil
	}
	return r.send(func(int) *rankv1.ToRank {
		return &rankv1.ToRank{Body: &rankv1.ToRank_Discard{Discard: &rankv1.Discard{Instances: ids}}}
	})
}

// free gives back the agent's share in instances.
func (r *resolution) free(instances map[int]*instance) { r.group.freeAll(lo.Values(instances)) }

func (g *group) freeAll(instances []*instance) {
	for _, x := range instances {
		if !x.freed {
			x.freed = true
			g.free(x.bytes, x.key, x.service)
			x.closeFile()
		}
	}
}

// free gives back an instance's share of memory, and ends its worker if it has one.
func (g *group) free(bytes int64, key string, s *service) {
	g.mu.Lock()
	g.shared -= bytes
	if key != "" {
		g.kernels[key]--
	}
	if s != nil {
		delete(g.services, s.instance)
	}
	g.mu.Unlock()
	if s != nil {
		s.end()
	}
}

func (i *instance) closeFile() {
	if i.file != nil {
		_ = i.file.Close()
		i.file = nil
	}
}

// decided is a decision with what runs it.
type decided struct {
	decision  dispatch.Decision
	instances map[int]*instance // by position in the cascade
	segments  []*rankv1.Segment
}

// message is the decision for ranks. g.mu is held.
func (r *resolution) message(d dispatch.Decision, chosen map[int]*instance, epoch uint64) *rankv1.Commit {
	commit := &rankv1.Commit{Epoch: epoch}
	for _, s := range d.Table.Segments() {
		segment := &rankv1.Segment{Max: s.Max}
		for _, c := range s.Choices {
			x := chosen[c.Index]
			segment.Choices = append(segment.Choices, &rankv1.Choice{Multiple: c.Multiple, Instance: x.id, Counter: r.group.counter(x, r.asked.class)})
		}
		commit.Segments = append(commit.Segments, segment)
	}
	commit.Answers = lo.Map(d.Answers, func(a dispatch.Answer, _ int) *rankv1.Answer {
		return &rankv1.Answer{Backend: a.Backend, Plugin: a.Plugin, Verdict: pluginv1.FromVerdict(a.Verdict)}
	})
	return commit
}

// putInForce notes what serves a class from now on. g.mu is held.
func (g *group) putInForce(class collective.Class, x decided, epoch uint64) {
	for _, i := range x.instances {
		g.counters[g.counterOf(i, class)].instance = i.id
	}
	g.inForce[class.Index()] = inForce{decided: x, epoch: epoch, serves: lo.MapEntries(x.instances, func(i int, x2 *instance) (uint64, string) {
		return x2.id, strings.Join(lo.Map(x.decision.Table.Ranges(i), func(b backend.Range, _ int) string { return b.String() }), ", ")
	})}
}

// commit puts the decision in force in every rank.
func (r *resolution) commit(d dispatch.Decision, chosen map[int]*instance, epoch uint64) error {
	g, class := r.group, r.asked.class
	g.mu.Lock()
	g.asked = nil // a rank that has its commit may ask for the next class at once
	g.onDevice = g.onDevice || class.Memory == collective.CUDA
	commit := r.message(d, chosen, epoch)
	g.putInForce(class, decided{d, chosen, commit.Segments}, epoch)
	superseded := g.supersede(class.Index())
	g.mu.Unlock()
	g.freeAll(superseded)
	if err := r.send(func(int) *rankv1.ToRank { return &rankv1.ToRank{Body: &rankv1.ToRank_Commit{Commit: commit}} }); err != nil {
		g.fail("commit: " + err.Error()) // some ranks have it and some not
		return err
	}
	return nil
}

// release tells a backend that a group has ended.
func (a *Agent) release(c dispatch.Candidate, group string) {
	a.wg.Go(func() {
		if err := c.Backend.Release(a.background(), group); err != nil {
			a.opts.Logger.Warn("release", "group", group, "backend", c.Info.Name, "error", err)
		}
	})
}
