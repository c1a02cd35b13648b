// Command verify-pass makes the all-reduces of one Kimi-K2.5 verify pass and says how long they take and how exact they are.
//
// Start it with `weir run -n 8 -- bin/verify-pass`. With -memory cuda the messages lie in the memory of a GPU for each rank,
// with -graph a pass is one CUDA graph. It exits with 1 when a sum is wrong.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/rank"
)

// The shape of Kimi-K2.5: two all-reduces in each of 61 layers, each of one hidden vector for every token.
const (
	hidden     = 7168
	allReduces = 122
)

// What may be asked for, so that a slip of the finger takes neither all memory nor all day.
const (
	maxTokens = 4096
	maxPasses = 100_000
)

func main() {
	tokens := flag.String("tokens", "1,6,16", "comma-separated `numbers` of tokens to verify in one pass")
	passes := flag.Int("passes", 9, "timed `passes` for each number of tokens; the median is printed")
	seed := flag.Uint64("seed", 1, "`seed` of the random inputs")
	kind := flag.String("memory", "host", "`kind` of memory of the messages: host or cuda")
	graph := flag.Bool("graph", false, "capture a pass in a CUDA graph and launch that; takes -memory cuda")
	flag.Parse()
	if err := run(*tokens, *passes, *seed, *kind, *graph); err != nil {
		fmt.Fprintf(os.Stderr, "verify-pass: %s\n", err)
		os.Exit(1)
	}
}

func run(list string, passes int, seed uint64, kind string, graph bool) error {
	tokens, err := parse(list)
	if err != nil {
		return err
	}
	if passes < 1 || passes > maxPasses {
		return fmt.Errorf("-passes: %d passes; give 1 to %d", passes, maxPasses)
	}
	var memory collective.Memory
	if err := memory.UnmarshalText([]byte(kind)); err != nil {
		return fmt.Errorf("-memory: %w", err)
	}
	if graph && memory != collective.CUDA {
		return fmt.Errorf("-graph: graphs take -memory cuda")
	}
	ctx := context.Background()
	session, err := rank.Join(ctx, options(memory))
	if err != nil {
		return err
	}
	defer session.Close()
	group := session.World()
	// Deciding takes milliseconds and is no part of a pass.
	class := collective.Class{Memory: memory, DataType: collective.BFloat16, Op: collective.Sum}
	if err := group.Warm(ctx, class); err != nil {
		return err
	}
	measure := measureHost
	if memory == collective.CUDA {
		class.Captured = true
		if graph {
			if err := group.Warm(ctx, class); err != nil {
				return err
			}
		}
		device, err := newOnDevice(group, graph)
		if err != nil {
			return err
		}
		measure = device.measure
	}
	if group.Rank() == 0 {
		fmt.Printf("\nKimi-K2.5 verify pass on %d ranks: %d all-reduces of tokens × %d bfloat16\n\n", group.Size(), allReduces, hidden)
		fmt.Printf("%8s%14s%22s%15s%17s%12s\n", "tokens", "message", "µs per all-reduce", "ms per pass", "largest error", "allowed")
	}
	for _, n := range tokens {
		in := newInputs(seed, group.Rank(), group.Size(), n*hidden)
		pass, err := measure(group, in, passes)
		if err != nil {
			return fmt.Errorf("%d tokens: %w", n, err)
		}
		if group.Rank() == 0 {
			fmt.Printf("%8d%14s%22.1f%15.2f%17.2g%12.2g\n", n, backend.Size(int64(n*hidden*2)),
				float64(pass.Microseconds())/allReduces, float64(pass.Microseconds())/1e3, in.worst, in.allowed)
		}
		if err := group.Barrier(ctx); err != nil {
			return err
		}
	}
	return nil
}

// options are how the rank joins: on a GPU of its own, if it needs one.
func options(memory collective.Memory) rank.Options {
	if memory == collective.CUDA {
		return rank.Options{Device: cmp.Or(os.Getenv(rank.EnvDevice), rank.DeviceAuto)}
	}
	return rank.Options{}
}

// measureHost runs the passes and returns the median duration. Every result of the first pass and the last one of all are
// checked.
func measureHost(group *rank.Group, in *inputs, passes int) (time.Duration, error) {
	var took []time.Duration
	out := make([]collective.BF16, in.count)
	for p := range passes + 1 {
		start := time.Now()
		for layer := range allReduces {
			if err := rank.AllReduce(group, out, in.layer(layer), collective.Sum); err != nil {
				return 0, err
			}
			if p == 0 { // this pass warms up and is not timed
				if err := in.check(layer, out); err != nil {
					return 0, err
				}
			}
		}
		if p > 0 {
			took = append(took, time.Since(start))
		}
	}
	slices.Sort(took)
	return took[len(took)/2], in.check(allReduces-1, out)
}

func parse(list string) ([]int, error) {
	var tokens []int
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 1 || n > maxTokens {
			return nil, fmt.Errorf("-tokens: %q is not a number of tokens from 1 to %d", s, maxTokens)
		}
		tokens = append(tokens, n)
	}
	return tokens, nil
}
