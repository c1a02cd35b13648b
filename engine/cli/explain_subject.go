package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/samber/lo"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/diagnose"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/core/topology/foreign"
	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/engine/explain"
	"github.com/weir-project/weir/engine/profiles"
	"github.com/weir-project/weir/engine/telemetry"
)

// subject is what a question is about.
type subject struct {
	question  *question
	profiles  []string
	class     collective.Class
	devices   []int // by number in the matrix; nil: all
	bytes     []int64
	tokens    []int
	hidden    int // 0 if not known
	model     *profiles.Model
	p2p       topology.P2P
	multicast topology.Answer

	machine   topology.Graph // of one host
	source    string
	format    string
	whole     string   // whether the machine is all there
	warnings  []string // of the reading
	positions []int    // of the group's devices in machine, for each rank of one host
	group     collective.Group
	foreign   bool // the facts are not all of this machine
}

// live reports whether the machine is this one.
func (s *subject) live() bool { return s.question.topo == "" }

// readTopology reads what --topo names; nothing without it.
func (s *subject) readTopology(ctx context.Context, stdin io.Reader) error {
	name := s.question.topo
	if name == "" {
		s.source, s.whole = "this machine", "unknown"
		return nil
	}
	s.foreign = true
	r, err := readTopology(ctx, name, s.question.machine, stdin)
	if err != nil {
		return err
	}
	s.machine, s.warnings = r.Graph, r.Warnings
	s.whole = lo.Ternary(r.Complete == foreign.Cut, "no", "yes")
	s.source, s.format = lo.Ternary(name == "-", "standard input", name), strings.Join(r.Formats, " and ")
	if strings.HasPrefix(r.Format(), "preset ") {
		s.source, s.format = r.Format(), ""
	}
	s.setVendor(r.Formats)
	if len(s.machine.Devices) == 0 {
		return fmt.Errorf("%s: %s", s.source, strings.Join(append([]string{"the text names no GPUs"}, r.Warnings...), "; "))
	}
	return nil
}

// setLive takes this machine.
func (s *subject) setLive(g topology.Graph) {
	r := ofGraph(s.source, g)
	s.machine = g
	s.warnings, _ = lo.Difference(r.Warnings, g.Notes) // the notes stand with the machine's description
}

// withFile opens a file, or standard input for "-". Errors name it.
func withFile(stdin io.Reader, name string, use func(io.Reader) error) error {
	source := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		source = f
	}
	if err := use(source); err != nil {
		return fmt.Errorf("%s: %w", lo.Ternary(name == "-", "standard input", name), err)
	}
	return nil
}

func presetNames() string {
	return strings.Join(lo.Map(topology.Presets(), func(p topology.PresetMachine, _ int) string { return p.Name }), ", ")
}

// setVendor says whose GPUs a tool prints.
func (s *subject) setVendor(formats []string) {
	vendors := map[string]string{
		foreign.ROCmSMI: "amd", foreign.AMDSMI: "amd", foreign.RCCLXML: "amd", foreign.NPUSMI: "huawei",
		foreign.TopoM: "nvidia", foreign.TopoMP: "nvidia", foreign.TopoP2P: "nvidia", foreign.NVLinkS: "nvidia",
		foreign.ListGPUs: "nvidia", foreign.NCCLXML: "nvidia",
	}
	for i := range s.machine.Devices {
		if d := &s.machine.Devices[i]; d.Vendor == "" {
			d.Vendor = vendors[formats[0]]
		}
	}
}

// complete works out the group, once the machine is known.
func (s *subject) complete() error {
	class, err := s.classOf(!s.live() || len(s.machine.Devices) > 0 || s.asksOfGPUs())
	if err != nil {
		return err
	}
	s.class = class
	if err := s.choose(); err != nil {
		return err
	}
	s.machine.Devices = slices.Clone(s.machine.Devices)
	for i := range s.machine.Devices {
		s.identify(&s.machine.Devices[i])
	}
	if s.question.hosts > 1 {
		s.foreign = true
	}
	if s.class.Memory == collective.Host || len(s.machine.Devices) == 0 {
		return s.hostGroup()
	}
	return s.gpuGroup()
}

// identify fills in what a device's name, or the command line, says of it.
func (s *subject) identify(d *topology.Device) {
	if c := s.question.capability; c != "" {
		s.foreign, d.Capability = true, c
	}
	d.Capability = cmp.Or(d.Capability, topology.CapabilityOf(d.Name))
	d.Vendor = cmp.Or(d.Vendor, topology.VendorOf(d.Name))
	if d.Vendor == "" && d.Capability != "" {
		d.Vendor = lo.Ternary(strings.HasPrefix(d.Capability, "gfx"), "amd", "nvidia")
	}
}

func (s *subject) asksOfGPUs() bool {
	q := s.question
	return q.capability != "" || q.p2p != "" || q.multicast != "" || q.devices != "" || q.captured
}

// choose finds the group's devices in the machine.
func (s *subject) choose() error {
	q, n := s.question, len(s.machine.Devices)
	if s.devices != nil {
		for _, d := range s.devices {
			i := slices.IndexFunc(s.machine.Devices, func(x topology.Device) bool { return x.Index == d })
			if i < 0 {
				return fmt.Errorf("--devices: there is no GPU%d in the topology; it has %s", d, numbers(s.machine.Devices))
			}
			s.positions = append(s.positions, i)
		}
		if q.ranks != 0 && q.ranks != len(s.devices)*q.hosts {
			return fmt.Errorf("--ranks %d and %d devices on %d hosts do not go together; leave --ranks out", q.ranks, len(s.devices), q.hosts)
		}
		return nil
	}
	per := n
	if q.ranks != 0 && n > 0 {
		if q.ranks%q.hosts != 0 {
			return fmt.Errorf("--ranks %d cannot be divided evenly over %d hosts", q.ranks, q.hosts)
		}
		per = q.ranks / q.hosts
		if per > n && s.class.Memory == collective.CUDA {
			return fmt.Errorf("--ranks: the topology has %d GPUs, not %d; for more give --hosts, or another --topo", n, per)
		}
	}
	s.positions = lo.Range(min(per, n))
	return nil
}

// numbers names devices by their numbers.
func numbers(devices []topology.Device) string {
	if len(devices) == 0 {
		return "no GPUs (or none that this process can see)"
	}
	return strings.Join(lo.Map(devices, func(d topology.Device, _ int) string { return strconv.Itoa(d.Index) }), ", ")
}

// hostGroup is ranks whose buffers are in host memory, or of GPUs that nothing is known of.
func (s *subject) hostGroup() error {
	n := lo.CoalesceOrEmpty(s.question.ranks, len(s.positions)*s.question.hosts, 8)
	if s.foreign {
		s.group = collective.HostGroup("explain", n)
		for i := range s.group.Ranks {
			if s.question.hosts > 1 {
				s.group.Ranks[i].Host = fmt.Sprintf("host%d", i*s.question.hosts/n)
			}
		}
	} else {
		s.group = agent.GroupFacts("explain", make([]collective.Rank, n), s.machine, false)
	}
	s.positions = nil
	if s.class.Memory == collective.CUDA {
		for a := range s.group.Links { // of the ranks' GPUs, not of their host's memory
			s.group.Links[a] = make([]topology.Link, n)
		}
		s.tell()
	}
	return nil
}

func (s *subject) gpuGroup() error {
	sub, err := s.machine.Sub(s.positions)
	if err != nil {
		return err
	}
	if s.foreign {
		s.group = collective.GPUGroup("explain", sub, s.question.hosts)
	} else {
		ranks := make([]collective.Rank, len(sub.Devices))
		for i := range ranks {
			ranks[i].Device = &sub.Devices[i]
		}
		s.group = agent.GroupFacts("explain", ranks, sub, false)
	}
	s.infer()
	s.tell()
	return nil
}

// infer adds what follows from the links: a driver lets GPUs that are linked by NVLink or XGMI reach each other, and
// where links or capabilities rule multicast out there is none.
func (s *subject) infer() {
	n := s.group.WorldSize()
	direct := n > 1 && lo.EveryBy(slices.Collect(topology.Pairs(s.group.Links, n)), func(l topology.Link) bool {
		return l.Class == topology.NVLink || l.Class == topology.XGMI
	})
	if direct && s.group.P2P == topology.P2PUnknown {
		s.group.P2P = topology.P2PReported
	}
	if s.group.Multicast == topology.NotKnown && s.group.Hosts() == 1 {
		s.group.Multicast, _ = diagnose.Multicast(s.machine, s.positions)
	}
}

// tell puts what the command line says in the place of what was found.
func (s *subject) tell() {
	if s.p2p != topology.P2PUnknown {
		s.group.P2P, s.foreign = s.p2p, true
	}
	if s.multicast != topology.NotKnown {
		s.group.Multicast, s.foreign = s.multicast, true
	}
}

// ask asks one profile. Nothing is asked of this machine where the facts are not all its own.
func (s *subject) ask(ctx context.Context, e *engine, profile string) (explain.Answer, error) {
	req := backend.Request{Group: s.group, Class: s.class, Hypothetical: s.foreign || profile != weirProfile}
	x := explain.Answer{
		Profile: profile, Request: req, Sizes: s.sizes(), Warnings: s.warnings,
		Topology: explain.Topology{
			Source: s.source, Format: s.format, Complete: s.whole,
			Devices: lo.Map(s.positions, func(p, _ int) int { return s.machine.Devices[p].Index }),
		},
		Findings: diagnose.Findings(diagnose.Subject{Machine: s.machine, Positions: s.positions, Group: s.group, Class: s.class}),
	}
	if s.model != nil {
		x.Model = &explain.Model{Name: s.model.Name, Hidden: s.model.Hidden, AllReduces: s.model.AllReduces}
	}
	if profile == weirProfile {
		return s.askPlugins(ctx, e, x)
	}
	return s.askProfile(ctx, x)
}

func (s *subject) askPlugins(ctx context.Context, e *engine, x explain.Answer) (explain.Answer, error) {
	x.Request.Group.Deterministic = e.config.Group.Deterministic
	candidates := e.host.Candidates()
	opts := dispatch.Options{Policy: e.policy, AskAll: true, Hypothetical: x.Request.Hypothetical}
	ctx, span := telemetry.NewTracer(e.telemetry.TracerProvider).Start(trace.ContextWithRemoteSpanContext(ctx, e.parent), x.Request.Group, s.class)
	x.Decision = span.Resolve(ctx, candidates, opts)
	span.End(x.Decision, nil)
	if ctx.Err() != nil {
		return x, context.Cause(ctx)
	}
	return explain.New(x, candidates), nil
}

func (s *subject) askProfile(ctx context.Context, x explain.Answer) (explain.Answer, error) {
	p, err := profiles.Load(x.Profile)
	if err != nil {
		return x, err
	}
	candidates, err := p.Candidates(x.Request, profiles.Setup{Model: s.model, Hidden: s.hidden, Enabled: s.enabled(p)})
	if err != nil {
		return x, usageError{fmt.Errorf("--enable: %w", err)}
	}
	x.Assumes = fmt.Sprintf("%s at commit %.12s: %s", p.Engine, p.Commit, strings.TrimSpace(p.Assumes))
	x.Decision = dispatch.Resolve(ctx, candidates, x.Request.Group, s.class, dispatch.Options{AskAll: true, Hypothetical: true})
	x.Remarks = lo.Map(x.Decision.Answers, func(a dispatch.Answer, _ int) []string { return p.Remarks(a.Backend, a.Verdict, s.group) })
	return explain.New(x, candidates), nil
}

// enabled are the backends of --enable that a profile has; when profiles are compared one need not have those of another.
func (s *subject) enabled(p *profiles.Profile) []string {
	if s.question.compare == nil {
		return s.question.enable
	}
	return lo.Filter(s.question.enable, func(name string, _ int) bool {
		return lo.SomeBy(p.Backends, func(b *profiles.Backend) bool { return b.Name == name })
	})
}

// sizes are the message sizes asked about, ascending.
func (s *subject) sizes() []explain.Size {
	all := lo.Map(s.bytes, func(n int64, _ int) explain.Size { return explain.Size{Bytes: n} })
	for _, n := range s.tokens {
		all = append(all, explain.Size{Bytes: int64(n) * int64(s.hidden) * int64(s.class.DataType.Size()), Tokens: n})
	}
	slices.SortStableFunc(all, func(a, b explain.Size) int { return int(min(max(a.Bytes-b.Bytes, -1), 1)) })
	return all
}
