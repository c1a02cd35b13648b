// Command gpupeers measures every backend of Weir in GPU memory, NCCL called directly and PyTorch's symmetric-memory
// all-reduces on this machine in turns, and prints one table for eager calls and one for CUDA graphs.
//
// It is one self-contained program, so that it runs where there is no Go: give it the weir command and a Python with PyTorch.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/engine/bench"
)

type options struct {
	weir, program, loops, python, nccl string
	ranks, passes                      int
	sizes, modes, dataType             string
	seconds                            float64
	noP2P                              bool
	limit                              time.Duration
	out                                string
	report                             bool
}

func main() {
	var o options
	flag.StringVar(&o.weir, "weir", "bin/weir", "`path` of weir; its plugins are beside it")
	flag.StringVar(&o.program, "program", "bin/gpupeers/torch_cuda.py", "`path` of the peers' program")
	flag.StringVar(&o.loops, "loops", "bin/gpu/direct.so", "`path` of the loop in C with which NCCL is called directly")
	flag.StringVar(&o.python, "python", "python3", "`interpreter` that has PyTorch for CUDA")
	flag.StringVar(&o.nccl, "nccl", "", "`path` of the NCCL that all of them use (\"\": the one that PyTorch brings)")
	flag.IntVar(&o.ranks, "ranks", 2, "`number` of ranks, a GPU for each")
	flag.IntVar(&o.passes, "passes", 3, "`times` that everything is measured in turns")
	flag.StringVar(&o.sizes, "sizes", "8,1K,4K,14K,32K,64K,84K,128K,224K,256K,512K,1M,2M,4M,16M,64M", "message `sizes`")
	flag.StringVar(&o.modes, "modes", "graph,eager", "`how` calls are made")
	flag.StringVar(&o.dataType, "type", "bfloat16", "data `type`: float32, float16 or bfloat16")
	flag.Float64Var(&o.seconds, "seconds", 0.05, "`seconds` of one eager measurement; graphs have 122 calls and are launched 15 times")
	flag.BoolVar(&o.noP2P, "no-p2p", false, "as if GPUs could not reach one another: NCCL_P2P_DISABLE=1, and no backend that needs it")
	flag.DurationVar(&o.limit, "limit", 3*time.Minute, "longest `time` of one start")
	flag.StringVar(&o.out, "out", "gpupeers.json", "`file` for all figures")
	flag.BoolVar(&o.report, "report", false, "measure nothing; print the tables of the files given as arguments")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "gpupeers: %s\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, files []string) error {
	if o.report {
		return report(files)
	}
	r, err := o.runner(ctx)
	if err != nil {
		return err
	}
	for pass := range o.passes {
		for _, mode := range strings.Split(o.modes, ",") {
			if err := r.turn(ctx, pass, mode); err != nil {
				return err
			}
			if err := r.save(o.out); err != nil {
				return err
			}
		}
	}
	r.write(os.Stdout)
	return nil
}

func (o options) runner(ctx context.Context) (*runner, error) {
	sizes, err := parseSizes(o.sizes)
	if err != nil {
		return nil, err
	}
	switch {
	case o.ranks < 2 || o.passes < 1 || !(o.seconds > 0):
		return nil, fmt.Errorf("-ranks is at least 2, -passes at least 1, -seconds above 0")
	case len(lo.Without(strings.Split(o.modes, ","), "graph", "eager")) > 0:
		return nil, fmt.Errorf("-modes: %q, want graph, eager or both with a comma", o.modes)
	case !slices.Contains([]string{"float32", "float16", "bfloat16"}, o.dataType):
		return nil, fmt.Errorf("-type: %q, want float32, float16 or bfloat16", o.dataType)
	}
	for _, path := range []*string{&o.weir, &o.program, &o.loops} {
		if *path, err = filepath.Abs(*path); err != nil {
			return nil, err
		}
		if _, err := os.Stat(*path); err != nil {
			return nil, fmt.Errorf("%w; ./task bench:gpu builds it", err)
		}
	}
	r := &runner{options: o, bytes: sizes}
	return r, r.look(ctx)
}

func parseSizes(text string) ([]int64, error) {
	var all []int64
	for part := range strings.SplitSeq(text, ",") {
		n, err := bench.ParseBytes(strings.TrimSpace(part))
		if err != nil || n < 8 || n%8 != 0 {
			return nil, fmt.Errorf("-sizes: %q is not a list of multiples of 8 bytes, such as 8,14K,1M", text)
		}
		all = append(all, n)
	}
	return all, nil
}

func report(files []string) error {
	if len(files) == 0 {
		return fmt.Errorf("-report: name files that earlier runs left")
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		var d document
		if err := json.Unmarshal(text, &d); err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
		d.write(os.Stdout)
	}
	return nil
}
