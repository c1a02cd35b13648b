package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/core/topology/foreign"
	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/engine/files"
	"github.com/weir-project/weir/engine/profiles"
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
	wishes    agent.Wishes // of the configuration, for groups of Weir's own

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

// maxAnswers and maxTraces bound what is read of an answer of --format json, and of a trace file.
const (
	maxAnswers = 64 << 20
	maxTraces  = 128 << 20
)

// withFile reads up to most bytes of a file, or of standard input for "-". Errors name it.
func withFile(ctx context.Context, stdin io.Reader, name string, most int64, use func(io.Reader) error) error {
	var err error
	if name == "-" {
		err = files.Wait(ctx, func() error { return use(files.Bounded(ctx, stdin, most)) })
	} else {
		err = files.With(ctx, name, most, use)
	}
	if err == nil || errors.As(err, new(signalled)) || errors.As(err, new(*fs.PathError)) {
		return err
	}
	return fmt.Errorf("%s: %w", lo.Ternary(name == "-", "standard input", name), err)
}

func presetNames() string {
	return strings.Join(lo.Map(topology.Presets(), func(p topology.PresetMachine, _ int) string { return p.Name }), ", ")
}

// setVendor says whose GPUs a tool prints.
func (s *subject) setVendor(formats []string) {
	vendors := map[string]string{
		foreign.ROCmSMI: "amd", foreign.AMDSMI: "amd", foreign.RCCLXML: "amd", foreign.NPUSMI: "huawei",
		foreign.TopoM: "nvidia", foreign.TopoMP: "nvidia", foreign.TopoP2P: "nvidia", foreign.NVLinkS: "nvidia",
		foreign.ListGPUs: "nvidia", foreign.QueryXML: "nvidia", foreign.NCCLXML: "nvidia",
	}
	for i := range s.machine.Devices {
		if d := &s.machine.Devices[i]; d.Vendor == "" {
			d.Vendor = vendors[formats[0]]
		}
	}
}
