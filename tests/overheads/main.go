// Command overheads measures what Weir costs around a call: the border to the plugin's process, memory, and resolution.
//
// It uses real processes and prints Markdown tables. Build everything first (./task bench:overheads does).
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

type options struct {
	bin            string // absolute
	passes, calls  int
	ranks, plugins []int
}

func main() {
	bin := flag.String("bin", "bin", "`folder` of weir; plugins/ and programs/ are in it")
	passes := flag.Int("passes", 10, "`times` that the plugin is left alive and killed in turns")
	calls := flag.Int("calls", 200_000, "timed `calls` of each")
	ranks := flag.String("ranks", "8,64", "`numbers` of ranks that resolve")
	plugins := flag.String("plugins", "1,8,32", "`numbers` of plugins that are asked")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	o := options{passes: *passes, calls: *calls}
	var err error
	if o.bin, err = filepath.Abs(*bin); err == nil {
		if o.ranks, err = numbers("ranks", *ranks); err == nil {
			o.plugins, err = numbers("plugins", *plugins)
		}
	}
	if err == nil {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "overheads: %s\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	load, _ := os.ReadFile("/proc/loadavg") // only shown
	fmt.Printf("%d cores, load before %s\n", runtime.NumCPU(), strings.Join(strings.Fields(string(load))[:min(3, len(strings.Fields(string(load))))], " "))
	for _, part := range []func(context.Context, options) error{border, memory, resolution} {
		if err := part(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

func numbers(flag, list string) ([]int, error) {
	var all []int
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-%s: %q is not a list of numbers from 1, such as 8,64", flag, list)
		}
		all = append(all, n)
	}
	return all, nil
}
