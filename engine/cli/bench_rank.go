package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/engine/bench"
	"github.com/weir-project/weir/sdk/rank"
)

// benchRankCommand is the hidden command that each rank of a benchmark is.
const benchRankCommand = "bench-rank"

// benchEvent is a line that rank 0 prints for `weir bench`. One field is set.
type benchEvent struct {
	PIDs    []int          `json:",omitempty"` // all have joined
	Next    *bench.Cell    `json:",omitempty"` // is being measured
	Cell    *bench.Cell    `json:",omitempty"` // has been measured
	Refused *benchRefusal  `json:",omitempty"`
	Memory  []bench.Memory `json:",omitempty"` // at the end
}

// benchRefusal is a class that no backend serves.
type benchRefusal struct {
	Class collective.Class
	Cells int
	Why   string
}

func (a *app) benchRank() *cobra.Command {
	return &cobra.Command{
		Use:    benchRankCommand + " SPEC",
		Short:  "Be a rank of a benchmark (started by weir bench)",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var spec bench.Spec
			if err := json.Unmarshal([]byte(args[0]), &spec); err != nil {
				return usageError{fmt.Errorf("bad specification: %w", err)}
			}
			runtime.LockOSThread() // a rank stays on its thread, whatever else the runtime does
			session, err := rank.Join(c.Context(), benchOptions(spec))
			if err != nil {
				return err
			}
			defer session.Close()
			if spec.Bind {
				if err := bindThread(session.World().Rank()); err != nil {
					return err
				}
			}
			r := &benchRank{spec: spec, group: session.World(), out: json.NewEncoder(a.stdout)}
			return r.run(c.Context())
		},
	}
}

// benchOptions are how a rank of a benchmark joins.
func benchOptions(s bench.Spec) rank.Options {
	if s.Memory == collective.CUDA {
		return rank.Options{Device: benchDevice()}
	}
	return rank.Options{}
}

// benchRank measures in one rank. All ranks make the same calls: what they decide by, they exchange first.
type benchRank struct {
	spec    bench.Spec
	group   *rank.Group
	out     *json.Encoder
	in, dst []byte    // as long as the largest message
	gpu     *benchGPU // instead of in and dst, in device memory
}

func (r *benchRank) run(ctx context.Context) error {
	largest := r.spec.Sizes[len(r.spec.Sizes)-1]
	if err := r.allocate(ctx, largest); err != nil {
		return err
	}
	debug.SetGCPercent(-1) // the loops allocate nothing, so a collection could only be in their way
	var pids []int
	for _, x := range r.group.Facts().Ranks {
		pids = append(pids, x.PID)
	}
	if err := r.tell(benchEvent{PIDs: pids}); err != nil {
		return err
	}
	for _, class := range r.spec.Classes() {
		if err := r.class(ctx, class); err != nil {
			return err
		}
	}
	return r.reportMemory(ctx)
}

// allocate makes the buffers.
func (r *benchRank) allocate(ctx context.Context, largest int64) (err error) {
	if r.spec.Memory == collective.CUDA {
		if r.gpu, err = openGPU(ctx, r.group, largest, r.spec); err != nil {
			return fmt.Errorf("rank %d: device memory: %w", r.group.Rank(), err)
		}
		return nil
	}
	if !r.spec.Registered {
		r.in, r.dst = alignedBytes(largest), alignedBytes(largest)
		return nil
	}
	for _, b := range []*[]byte{&r.in, &r.dst} {
		if *b, err = r.group.Alloc(ctx, int(largest)); err != nil {
			return err
		}
	}
	return nil
}

func (r *benchRank) tell(e benchEvent) error {
	if r.group.Rank() != 0 {
		return nil
	}
	return r.out.Encode(e)
}

func (r *benchRank) class(ctx context.Context, class collective.Class) error {
	cells := r.spec.Cells(class)
	if len(cells) == 0 {
		return nil
	}
	if err := r.group.Warm(ctx, class); err != nil {
		if r.group.Err() != nil {
			return err
		}
		return r.tell(benchEvent{Refused: &benchRefusal{class, len(cells), err.Error()}}) // the same on every rank
	}
	p := bench.NewPattern(class, r.group.Rank(), r.group.Size())
	for _, c := range cells {
		if err := r.tell(benchEvent{Next: &c}); err != nil {
			return err
		}
		if c.Backend = r.group.Backend(class, c.Bytes); c.Backend != "" {
			if err := r.cell(ctx, &c, p); err != nil {
				return fmt.Errorf("%d bytes of %s: %w", c.Bytes, class.DataType, err)
			}
		}
		if err := r.tell(benchEvent{Cell: &c}); err != nil {
			return err
		}
	}
	return nil
}

// benchLines hands each line that rank 0 prints to a function.
type benchLines struct {
	rest []byte
	take func(benchEvent)
}

func (l *benchLines) Write(text []byte) (int, error) {
	l.rest = append(l.rest, text...)
	for {
		line, rest, whole := strings.Cut(string(l.rest), "\n")
		if !whole {
			return len(text), nil
		}
		l.rest = []byte(rest)
		var e benchEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			continue // nothing else prints there
		}
		l.take(e)
	}
}
