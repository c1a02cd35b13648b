// Command ranges measures from which message size on one backend of the shm plugin is faster than another on this machine,
// and prints the rows for the tables in plugins/shm/ranges.go.
//
// Build everything first (./task bench:ranges does).
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	bin := flag.String("bin", "bin", "`folder` of weir; plugins/ is in it")
	ranks := flag.String("ranks", "2,4,8", "`numbers` of ranks")
	passes := flag.Int("passes", 5, "`times` that every backend is measured at every size, in turns")
	seconds := flag.Float64("seconds", 0.05, "`seconds` of one measurement")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *bin, *ranks, *passes, *seconds); err != nil {
		fmt.Fprintf(os.Stderr, "ranges: %s\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, bin, ranks string, passes int, seconds float64) error {
	path, err := filepath.Abs(filepath.Join(bin, "weir"))
	if err != nil {
		return err
	}
	if passes < 1 {
		return fmt.Errorf("-passes: %d, want 1 or more", passes)
	}
	for word := range strings.SplitSeq(ranks, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 2 {
			return fmt.Errorf("-ranks: %q is not a number of ranks, 2 or more", word)
		}
		m := &machine{weir: path, ranks: n, passes: passes, seconds: seconds}
		if err := m.measure(ctx); err != nil {
			return err
		}
		table := "spread"
		if n > runtime.NumCPU() {
			table = "crowded"
		}
		m.print(os.Stdout)
		fmt.Printf("%s: %s\n\n", table, rowOf(n, m.times))
	}
	return nil
}
