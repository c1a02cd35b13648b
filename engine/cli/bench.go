package cli

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/samber/lo"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/engine/bench"
	"github.com/weir-project/weir/engine/config"
	"github.com/weir-project/weir/engine/limits"
	"github.com/weir-project/weir/engine/plot"
)

// benchFlags are what `weir bench` was called with.
type benchFlags struct {
	ranks              int
	least, most, list  string
	factor             int64
	step               string
	iterations, warmup int
	seconds            float64
	check              int
	types, ops         string
	place, bind        string
	localRegister      int
	backend            string
	all                bool
	memory, listRanks  bool
	memoryKind         string
	launches           int
	format, plot       string
	stepSet, factorSet bool
	spanSet            bool // one of the flags that --sizes stands for
}

const benchLong = `Start N ranks on this host, have them all-reduce messages of rising size, and print for each size the time of a call
(the mean of the slowest rank), algorithm and bus bandwidth and the number of wrong elements, out of place and in place, and
which backend served it. Flags and columns are those of nccl-tests' all_reduce_perf; sizes take K, M and G (powers of 1024).

Without --iters each loop makes as many calls as fill --seconds. Checked inputs are small whole numbers whose result is exact
in every data type. --format json adds, for every column, the least, median and 99th percentile of the timed blocks.

--backend has one backend alone serve; the others are disabled. --all-backends runs each in turn and prints their times side
by side, the lowest with an asterisk, and what the cascade would choose.

With --memory cuda the buffers lie in GPU memory and calls are made on a stream of each rank; a block of calls ends when the
device has done them. -G captures the calls of a block in a CUDA graph and launches it so many times.

A wrong element ends it with exit code 1. ` + "\n\n" + exitCodes

func (a *app) bench() *cobra.Command {
	var f benchFlags
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure all-reduce on this host: time, bandwidth and correctness by message size and backend",
		Long:  benchLong,
		Example: `  weir bench --ranks 8 -b 8 -e 64M -f 4
  weir bench --ranks 2 --backend shm-twoshot -d bfloat16 -b 14K -e 14K -n 1000
  weir bench --ranks 8 --all-backends --plot latency.svg`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			f.note(c.Flags())
			spec, err := f.parse()
			if err != nil {
				return usageError{err}
			}
			return a.runBench(c, f, spec)
		},
	}
	f.register(c.Flags())
	attachFlag(c)
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		var invalid *pflag.InvalidValueError
		if errors.As(err, &invalid) && invalid.GetFlag().Name == "check" { // -c is --config elsewhere
			err = fmt.Errorf("%w (--config FILE is the configuration)", err)
		}
		return c.Parent().FlagErrorFunc()(c, err)
	})
	return c
}

func (f *benchFlags) register(fs *pflag.FlagSet) {
	settings := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.Flags(settings)
	settings.VisitAll(func(x *pflag.Flag) {
		if x.Shorthand == "c" {
			x.Shorthand = "" // -c is --check here, as in nccl-tests
		}
		fs.AddFlag(x)
	})
	fs.IntVar(&f.ranks, "ranks", max(2, min(8, runtime.NumCPU())), "`number` of ranks")
	fs.StringVarP(&f.least, "minbytes", "b", "8", "smallest message `size`")
	fs.StringVarP(&f.most, "maxbytes", "e", "64M", "largest message `size`")
	fs.Int64VarP(&f.factor, "stepfactor", "f", 4, "`factor` from one size to the next")
	fs.StringVarP(&f.step, "stepbytes", "i", "1M", "`bytes` from one size to the next, instead of a factor")
	fs.StringVar(&f.list, "sizes", "", "message `sizes` with commas, instead of those from -b to -e")
	fs.IntVarP(&f.iterations, "iters", "n", 0, "timed `calls` of each size (0: as many as fill --seconds)")
	fs.Float64Var(&f.seconds, "seconds", 0.1, "`seconds` that each timed loop is to take")
	fs.IntVarP(&f.warmup, "warmup_iters", "w", 5, "`calls` before the timed ones")
	fs.IntVarP(&f.check, "check", "c", 1, "`calls` whose results are checked (0: none)")
	fs.StringVarP(&f.types, "datatype", "d", "float", "data `type`, several with commas, or all")
	fs.StringVarP(&f.ops, "op", "o", "sum", "reduce `op`, several with commas, or all")
	fs.StringVar(&f.place, "place", "both", "`which` buffers to measure: out (of place), in (place) or both")
	fs.StringVar(&f.bind, "bind", "none", "`what` to bind each rank to: none, or core (rank r runs on core r, modulo their number)")
	fs.StringVar(&f.memoryKind, "memory", "host", "`kind` of memory of the buffers: host or cuda (rank r uses GPU r, modulo their number)")
	fs.IntVarP(&f.launches, "cudagraph", "G", 0, "in CUDA memory, `launches` of a graph of the timed calls (0: no graph)")
	fs.IntVarP(&f.localRegister, "local_register", "R", 0, "1: buffers in memory that the group allocated (registered), 0: in memory of the ranks' own")
	fs.StringVar(&f.backend, "backend", "", "have only the backend `NAME` serve")
	fs.BoolVar(&f.all, "all-backends", false, "run every backend in turn and compare their times")
	fs.BoolVarP(&f.memory, "memory_report", "M", false, "print the memory of each rank's process")
	fs.BoolVar(&f.listRanks, "list-ranks", false, "print the process of each rank above the table")
	fs.StringVar(&f.plot, "plot", "", "draw latency and bandwidth into this .svg or .png `file`")
	fs.StringVar(&f.format, "format", "text", "`format` of the output: text or json")
}

// note keeps which flags were given, where a default is not the same as none.
func (f *benchFlags) note(fs *pflag.FlagSet) {
	f.stepSet, f.factorSet = fs.Changed("stepbytes"), fs.Changed("stepfactor")
	f.spanSet = f.stepSet || f.factorSet || fs.Changed("minbytes") || fs.Changed("maxbytes")
}

func (f *benchFlags) parse() (bench.Spec, error) {
	s := bench.Spec{
		Iterations: f.iterations, Seconds: f.seconds, Warmup: f.warmup, Check: f.check,
		OutOfPlace: f.place != "in", InPlace: f.place != "out", Bind: f.bind == "core", Registered: f.localRegister == 1,
	}
	if err := collective.CheckWorldSize(f.ranks); err != nil {
		return s, fmt.Errorf("--ranks: %w", err)
	}
	switch {
	case min(f.iterations, f.warmup, f.check) < 0 || max(f.iterations, f.warmup, f.check) > maxCalls:
		return s, fmt.Errorf("--iters, --warmup_iters and --check are numbers of calls, 0 to %d", maxCalls)
	case !(f.seconds > 0 && f.seconds <= 3600):
		return s, fmt.Errorf("--seconds: %g; give more than 0 and at most 3600", f.seconds)
	case f.format != "text" && f.format != "json":
		return s, badFormat(f.format)
	case !slices.Contains([]string{"out", "in", "both"}, f.place):
		return s, fmt.Errorf("--place: %q, want out, in or both", f.place)
	case f.bind != "none" && f.bind != "core":
		return s, fmt.Errorf("--bind: %q, want none or core", f.bind)
	case f.localRegister != 0 && f.localRegister != 1:
		return s, fmt.Errorf("--local_register: %d, want 0 or 1", f.localRegister)
	case f.all && f.backend != "":
		return s, fmt.Errorf("--backend and --all-backends exclude each other")
	case f.list != "" && f.spanSet:
		return s, fmt.Errorf("--sizes excludes --minbytes, --maxbytes, --stepbytes and --stepfactor")
	case f.stepSet && f.factorSet:
		return s, fmt.Errorf("--stepbytes and --stepfactor exclude each other")
	}
	if f.plot != "" {
		if err := plot.Check(f.plot); err != nil {
			return s, fmt.Errorf("--plot: %w", err)
		}
	}
	if err := s.Memory.UnmarshalText([]byte(f.memoryKind)); err != nil {
		return s, fmt.Errorf("--memory: %w", err)
	}
	switch s.Launches = f.launches; {
	case f.launches < 0 || f.launches > maxCalls:
		return s, fmt.Errorf("--cudagraph: %d launches; give 0 to %d", f.launches, maxCalls)
	case f.launches > 0 && s.Memory != collective.CUDA:
		return s, fmt.Errorf("--cudagraph: graphs take --memory cuda")
	}
	var err error
	if s.Sizes, err = f.sizes(); err != nil {
		return s, err
	}
	if s.DataTypes, err = each[collective.DataType]("--datatype", f.types, collective.DataTypes()); err != nil {
		return s, err
	}
	if s.Ops, err = each[collective.Op]("--op", f.ops, collective.Ops()); err != nil {
		return s, err
	}
	if s.Total() == 0 {
		if f.list != "" {
			return s, fmt.Errorf("--sizes: no element of %s fits in %s", f.types, f.list)
		}
		return s, fmt.Errorf("--maxbytes: no element of %s fits in %s", f.types, f.most)
	}
	return s, f.room(s)
}

// maxCalls bounds a number of calls: more than a day of the shortest ones.
const maxCalls = 1_000_000_000

// room says why the ranks' buffers, two for each rank, or one beside those on the GPU, would not fit in this machine's memory.
func (f *benchFlags) room(s bench.Spec) error {
	largest := s.Sizes[len(s.Sizes)-1]
	buffers := int64(f.ranks) * int64(lo.Ternary(s.Memory == collective.CUDA, 1, 2))
	err := fmt.Errorf("%d buffers of %d bytes are more than any machine has", buffers, largest)
	if largest <= math.MaxInt64/buffers {
		err = limits.Room(largest * buffers)
	}
	if err != nil {
		return fmt.Errorf("--%s: %w; give a smaller size or fewer ranks", lo.Ternary(f.list != "", "sizes", "maxbytes"), err)
	}
	return nil
}

func (f *benchFlags) sizes() ([]int64, error) {
	if f.list != "" {
		return f.listed()
	}
	var bytes [3]int64
	for i, x := range []struct{ flag, text string }{{"minbytes", f.least}, {"maxbytes", f.most}, {"stepbytes", f.step}} {
		n, err := bench.ParseBytes(x.text)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", x.flag, err)
		}
		bytes[i] = n
	}
	factor := f.factor
	if f.stepSet {
		factor = 0
	}
	return bench.Sizes(bytes[0], bytes[1], factor, bytes[2])
}

// listed are the sizes of --sizes, rising, each once.
func (f *benchFlags) listed() ([]int64, error) {
	var all []int64
	for text := range strings.SplitSeq(f.list, ",") {
		n, err := bench.ParseBytes(strings.TrimSpace(text))
		if err == nil && n < 1 {
			err = fmt.Errorf("%d bytes; give 1 or more", n)
		}
		if err != nil {
			return nil, fmt.Errorf("--sizes: %w", err)
		}
		all = append(all, n)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// stepText is the step as nccl-tests prints it.
func (f *benchFlags) stepText() string {
	switch {
	case f.list != "":
		return "listed"
	case f.stepSet:
		return f.step + "(bytes)"
	}
	return fmt.Sprintf("%d(factor)", f.factor)
}

// each reads a comma-separated list of names, or "all".
func each[T any, P interface {
	*T
	UnmarshalText([]byte) error
}](flag, list string, all []T,
) ([]T, error) {
	if list == "all" {
		return all, nil
	}
	var values []T
	for name := range strings.SplitSeq(list, ",") {
		var v T
		if err := P(&v).UnmarshalText([]byte(name)); err != nil {
			return nil, fmt.Errorf("%s: %w; or all", flag, err)
		}
		values = append(values, v)
	}
	return values, nil
}

// cpuModel is what the kernel calls this machine's processor; "" if it does not say.
func cpuModel() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(info)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
