// Command chaos breaks running all-reduces on purpose, at random moments, and checks that nothing is wrong, lost or left
// behind. Everything random follows from the seed, so that a failing round can be repeated.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

func main() {
	var o options
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "of everything that is random")
	flag.IntVar(&o.faults, "faults", 1000, "number of `faults` to end after")
	flag.DurationVar(&o.limit, "limit", 15*time.Minute, "longest `time`")
	flag.IntVar(&o.only, "round", 0, "only this `round` of the seed")
	flag.StringVar(&o.bin, "bin", "bin", "`folder` with weir, plugins/ and programs/")
	flag.BoolVar(&o.verbose, "v", false, "print each round")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if o.bin, err = filepath.Abs(o.bin); err == nil {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "chaos: %s\n", err)
		os.Exit(1)
	}
}

type options struct {
	seed    uint64
	faults  int
	limit   time.Duration
	only    int
	bin     string
	verbose bool
}

// run makes rounds until there were enough faults. It goes on after a failed round, so that a summary shows how many
// there are.
func run(ctx context.Context, o options) error {
	start, sum := time.Now(), newSummary()
	fmt.Printf("seed %d: at least %d faults in at most %s\n", o.seed, o.faults, o.limit)
	first, last := 1, 1<<30
	if o.only > 0 {
		first, last = o.only, o.only
	}
	for n := first; n <= last && (sum.faults < o.faults || o.only > 0) && time.Since(start) < o.limit && ctx.Err() == nil; n++ {
		r := newRound(o, n)
		err := r.run(ctx)
		if ctx.Err() != nil {
			break
		}
		sum.add(r, err)
		if err != nil {
			fmt.Printf("\nround %d (%s): %v\nrepeat it with: chaos -seed %d -round %d -v\n%s\n", n, r, err, o.seed, n, r.output())
		}
		if o.verbose {
			fmt.Printf("round %d: %s\n", n, r)
		} else if time.Since(sum.told) > 2*time.Second {
			sum.told = time.Now()
			fmt.Fprintf(os.Stderr, "\r%d rounds, %d faults, %d failed, %s ", sum.rounds, sum.faults, sum.failed, time.Since(start).Round(time.Second))
		}
	}
	fmt.Fprint(os.Stderr, "\r\033[K")
	sum.print(os.Stdout, time.Since(start))
	switch {
	case sum.failed > 0:
		return fmt.Errorf("%d of %d rounds went wrong", sum.failed, sum.rounds)
	case ctx.Err() != nil:
		return ctx.Err()
	case sum.faults < o.faults && o.only == 0:
		return fmt.Errorf("only %d of %d faults within %s", sum.faults, o.faults, o.limit)
	}
	return nil
}
