package cli

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/samber/lo"
	"github.com/spf13/pflag"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/topology"
)

// question is what `weir explain` is asked, as it was typed.
type question struct {
	topo, devices, capability, p2p, multicast string
	machine, ranks, hosts                     int
	memory, dataType, op                      string
	captured, registered                      bool
	sizes                                     []string
	tokens                                    string
	hidden                                    int
	model                                     string
	profile                                   string
	enable, compare                           []string
	diff, trace, only                         string
	format                                    string
}

func (q *question) flags(f *pflag.FlagSet) {
	f.StringVar(&q.topo, "topo", "", "a machine that is not this one: a `file`, - for standard input, or a preset")
	f.IntVar(&q.machine, "machine", 0, "`number` of the machine in a text that holds several, from 1 (default the first, with a warning)")
	f.StringVar(&q.devices, "devices", "", "the group's GPUs by their `numbers` in the matrix, such as 0,1,4,5 (default all)")
	f.IntVar(&q.ranks, "ranks", 0, "`number` of ranks of the group (default one for each GPU, 8 without)")
	f.IntVar(&q.hosts, "hosts", 1, "`number` of hosts like this that the group spans, each with the same GPUs")
	f.StringVar(&q.capability, "capability", "", "compute `capability` of the GPUs, such as 12.0, or gfx942")
	f.StringVar(&q.p2p, "p2p", "", "what is `known` of peer-to-peer access: none, reported (by the driver), verified (by data: weir doctor) or failed")
	f.StringVar(&q.multicast, "multicast", "", "whether NVLink multicast works: `yes` or no")
	f.StringVar(&q.memory, "memory", "", "memory `kind` of the buffers: host or cuda (default cuda with --topo or where there are GPUs, else host)")
	f.StringVar(&q.dataType, "dtype", "bfloat16", "`type` of the elements (with --only one that the backend advertises)")
	f.StringVar(&q.op, "op", "sum", "reduce `op`: sum, prod, min, max or avg")
	f.BoolVar(&q.registered, "registered", false, "the buffers lie in memory that the group allocated (Group.Alloc)")
	f.BoolVar(&q.captured, "captured", false, "the calls are recorded in a GPU graph")
	f.StringSliceVar(&q.sizes, "bytes", nil, "message `sizes` to look at, such as 14336,1MiB (default every range)")
	f.StringVar(&q.tokens, "tokens", "", "message sizes in `tokens`, such as 1..64 or 1,8,64; needs --hidden or --model")
	f.IntVar(&q.hidden, "hidden", 0, "hidden `size` of the model: elements of one token")
	f.StringVar(&q.model, "model", "", "a `model` whose sizes are known, such as kimi-k2.5 (with 1 to 64 tokens unless --tokens says)")
	f.StringVar(&q.profile, "profile", weirProfile, "whose backends: "+strings.Join(profileNames(), ", "))
	f.StringSliceVar(&q.enable, "enable", nil, "`backends` of the profile that are off by default, taken to be switched on")
	f.StringSliceVar(&q.compare, "compare", nil, "`profiles` to put side by side, such as sglang,vllm,weir")
	f.StringVar(&q.diff, "diff", "", "`OLD.json` NEW.json: print which decisions changed between two answers of --format json")
	f.StringVar(&q.trace, "trace", "", "print the decisions in a trace `file` (telemetry.file, or an OpenTelemetry collector's file exporter)")
	f.StringVar(&q.only, "only", "", "how one `backend` of a plugin would fare: a table of every preset machine (or --topo) and number of ranks")
	f.StringVar(&q.format, "format", "text", "`format` of the output: text or json")
}

// checkArgs finds flags that contradict one another, before anything is read.
func (q *question) checkArgs(f *pflag.FlagSet, args []string) error {
	alone := func(flag string) error {
		var err error
		f.Visit(func(x *pflag.Flag) {
			if x.Name != flag && x.Name != "format" && x.Name != "config" && x.Name != "log-level" {
				err = fmt.Errorf("--%s and --%s do not go together: --%s only reads what is in its file", flag, x.Name, flag)
			}
		})
		return err
	}
	switch {
	case f.Changed("diff"):
		if len(args) != 1 || q.diff == "" {
			return errors.New("--diff takes two files: weir explain --diff OLD.json NEW.json")
		}
		return alone("diff")
	case len(args) > 0:
		return fmt.Errorf("unexpected argument %q; a topology is given with --topo", args[0])
	case f.Changed("trace"):
		if q.trace == "" {
			return errors.New("--trace: the name of the file is empty")
		}
		return alone("trace")
	}
	if f.Changed("machine") && !f.Changed("topo") {
		return errors.New("--machine says which machine of a text; give --topo too")
	}
	for _, pair := range [][2]string{{"bytes", "tokens"}, {"hidden", "model"}, {"bytes", "model"}, {"profile", "compare"}} {
		if f.Changed(pair[0]) && f.Changed(pair[1]) {
			return fmt.Errorf("--%s and --%s say the same in two ways; give one of them", pair[0], pair[1])
		}
	}
	for _, flag := range []string{"topo", "devices", "capability", "p2p", "multicast", "tokens", "model", "ranks", "hidden"} {
		x := f.Lookup(flag)
		if v := x.Value.String(); x.Changed && (v == "" || v == "0" && x.Value.Type() == "int") {
			return fmt.Errorf("--%s: %q is nothing; leave the flag out or give a value", flag, v)
		}
	}
	return nil
}

var validCapability = regexp.MustCompile(`^([0-9]{1,3}\.[0-9]|gfx[0-9a-f]{3,4})$`)

// parse checks every value by itself.
func (q *question) parse() (*subject, error) {
	s := &subject{question: q}
	for _, p := range []struct {
		flag, value string
		into        interface{ UnmarshalText([]byte) error }
	}{{"memory", q.memory, &s.class.Memory}, {"dtype", q.dataType, &s.class.DataType}, {"op", q.op, &s.class.Op}} {
		if p.flag == "memory" && p.value == "" {
			continue
		}
		if err := p.into.UnmarshalText([]byte(p.value)); err != nil {
			return nil, fmt.Errorf("--%s: %w", p.flag, err)
		}
	}
	s.class.Captured, s.class.Registered = q.captured, q.registered
	if q.memory == "host" {
		for flag, value := range map[string]string{"devices": q.devices, "capability": q.capability, "p2p": q.p2p, "multicast": q.multicast} {
			if value != "" {
				return nil, fmt.Errorf("--memory host and --%s do not go together: it is about GPUs", flag)
			}
		}
		if err := s.class.Validate(); err != nil {
			return nil, err
		}
	}
	if q.format != "text" && q.format != "json" {
		return nil, badFormat(q.format)
	}
	if q.ranks != 0 {
		if err := collective.CheckWorldSize(q.ranks); err != nil {
			return nil, fmt.Errorf("--ranks: %w", err)
		}
	}
	if q.hosts < 1 || q.hosts > collective.MaxWorldSize {
		return nil, fmt.Errorf("--hosts: %d hosts; give 1 to %d: a group has at most %d ranks", q.hosts, collective.MaxWorldSize, collective.MaxWorldSize)
	}
	if q.capability != "" && !validCapability.MatchString(q.capability) {
		return nil, fmt.Errorf("--capability: %q is no compute capability; give one such as 9.0 (nvidia-smi --query-gpu=compute_cap --format=csv), or gfx942", q.capability)
	}
	for _, p := range []struct {
		flag, value string
		known       []string
	}{
		{"p2p", q.p2p, []string{"none", "reported", "verified", "failed"}},
		{"multicast", q.multicast, []string{"yes", "no"}},
	} {
		if p.value != "" && !slices.Contains(p.known, p.value) {
			return nil, fmt.Errorf("--%s: %q, want one of %s", p.flag, p.value, strings.Join(p.known, ", "))
		}
	}
	s.p2p, s.multicast = topology.P2P(q.p2p), topology.Answer(q.multicast)
	return s, errors.Join(q.parseProfiles(s), q.parseSizes(s), q.parseDevices(s))
}

// classOf is the request class once it is known whether there are GPUs.
func (s *subject) classOf(gpus bool) (collective.Class, error) {
	c := s.class
	if s.question.memory == "" {
		c.Memory = lo.Ternary(gpus, collective.CUDA, collective.Host)
	}
	return c, c.Validate()
}
