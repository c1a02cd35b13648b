// Command chaos breaks running all-reduces on purpose, at random moments, and checks that nothing is wrong, lost or left
// behind. What happens when follows from the seed alone, so that a failing round can be repeated.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"
)

func main() {
	var o options
	show := false
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "of everything that is random")
	flag.IntVar(&o.enough, "faults", 1000, "number of `faults` to end after")
	flag.DurationVar(&o.limit, "limit", 15*time.Minute, "longest `time`")
	flag.IntVar(&o.only, "round", 0, "only this `round` of the seed")
	flag.StringVar(&o.kind, "scenario", "", "only rounds of this `kind`")
	flag.StringVar(&o.bin, "bin", "bin", "`folder` with weir, plugins/ and programs/")
	flag.BoolVar(&o.verbose, "v", false, "print each round with its faults and what became of them")
	flag.BoolVar(&show, "plan", false, "print what would be done, and do nothing")
	flag.StringVar(&o.plant, "plant", "", "a `defect` to be found, to see that chaos finds it: "+plants())
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := o.complete()
	switch {
	case err != nil:
	case show:
		for _, p := range o.plans() {
			fmt.Println(p)
		}
	default:
		err = run(ctx, o, os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "chaos: %s\n", err)
		os.Exit(1)
	}
}

type options struct {
	seed    uint64
	enough  int
	limit   time.Duration
	only    int
	kind    string
	bin     string
	verbose bool
	plant   string
	devices bool // the libraries of tests/fakegpu are there
}

func (o *options) complete() (err error) {
	if o.bin, err = filepath.Abs(o.bin); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(o.bin, "weir")); err != nil {
		return fmt.Errorf("%w (./task chaos builds what is needed)", err)
	}
	_, missing := os.Stat(filepath.Join(o.bin, "fakegpu", "libnccl.so.2"))
	o.devices = missing == nil
	if o.plant != "" && defects[o.plant] == nil {
		return fmt.Errorf("there is no defect %q; there are %s", o.plant, plants())
	}
	if o.kind != "" && !slices.ContainsFunc(scenarios, func(s *scenario) bool { return s.name == o.kind }) {
		return fmt.Errorf("there is no kind of round %q", o.kind)
	}
	return nil
}

// plans are the rounds of a seed until there are enough faults, or the one that is asked for.
func (o options) plans() (all []*plan) {
	faults := 0
	for n := 1; faults < o.enough && n <= cmp.Or(o.only, 1<<20); n++ {
		p := newPlan(o, n)
		if o.kind != "" && p.scenario.name != o.kind || o.only > 0 && n != o.only {
			continue
		}
		all = append(all, p)
		faults += len(p.faults)
	}
	return all
}

// run makes the rounds. It goes on after a failed one, so that a summary shows how many there are.
func run(ctx context.Context, o options, out, progress io.Writer) error {
	start, sum := time.Now(), newSummary(o.seed)
	plans := o.plans()
	fmt.Fprintf(out, "seed %d: %d faults in %d rounds, in at most %s\n", o.seed, faultsOf(plans), len(plans), o.limit)
	if !o.devices {
		fmt.Fprintln(out, "no rounds with a library: its stand-in needs a C compiler (cc)")
	}
	for _, p := range plans {
		if time.Since(start) > o.limit || ctx.Err() != nil {
			break
		}
		r := newRound(o, p)
		began := time.Now()
		err := r.run(ctx)
		if ctx.Err() != nil {
			break
		}
		sum.add(r, err)
		if err != nil {
			fmt.Fprintf(out, "\n%sround %d went wrong: %v\nrepeat it with: %s\n%s\n", r.report(), p.number, err, repeat(o, p), r.all)
		} else if o.verbose {
			fmt.Fprintf(out, "%s  %s\n", r.report(), time.Since(began).Round(time.Millisecond))
		}
		fmt.Fprintf(progress, "\r%d of %d rounds, %d faults, %d rounds went wrong, %s ", sum.rounds, len(plans), sum.faults, sum.failed, time.Since(start).Round(time.Second))
	}
	fmt.Fprint(progress, "\r\033[K")
	sum.print(out, time.Since(start))
	switch {
	case sum.failed > 0:
		return fmt.Errorf("%d of %d rounds went wrong", sum.failed, sum.rounds)
	case ctx.Err() != nil:
		return ctx.Err()
	case sum.rounds < len(plans):
		return fmt.Errorf("only %d of %d faults within %s", sum.faults, faultsOf(plans), o.limit)
	}
	return nil
}

// repeat is the command that makes a round once more.
func repeat(o options, p *plan) string {
	s := fmt.Sprintf("./task chaos -- -seed %d -round %d -v", o.seed, p.number)
	if o.plant != "" {
		s += fmt.Sprintf(" -plant %q", o.plant)
	}
	return s
}

func faultsOf(plans []*plan) (n int) {
	for _, p := range plans {
		n += len(p.faults)
	}
	return n
}
