package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/engine/bench"
)

// weir runs weir and returns what it prints on standard output.
func weir(ctx context.Context, o options, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(o.bin, "weir"), args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("weir %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return out, nil
}

// memory is what a rank's process uses once it has made small calls: the rank is weir itself, so its program is large.
func memory(ctx context.Context, o options) error {
	fmt.Printf("\nMemory of one rank's process, MiB (the largest of its ranks; message buffers of 8 B):\n\n")
	fmt.Printf("| ranks | private | shared with the other ranks | peak resident |\n| --- | --- | --- | --- |\n")
	for _, n := range []int{2, 8, 32} {
		out, err := weir(ctx, o, "bench", "--ranks", strconv.Itoa(n), "-b", "8", "-e", "8", "-n", "100", "--format", "json")
		if err != nil {
			return err
		}
		var d bench.Document
		if err := json.Unmarshal(out, &d); err != nil {
			return err
		}
		most := func(of func(bench.RankMem) int64) float64 {
			return float64(lo.Max(lo.Map(d.Memory, func(m bench.RankMem, _ int) int64 { return of(m) }))) / (1 << 20)
		}
		fmt.Printf("| %d | %.1f | %.1f | %.1f |\n", n, most(func(m bench.RankMem) int64 { return m.Private }),
			most(func(m bench.RankMem) int64 { return m.Shared }), most(func(m bench.RankMem) int64 { return m.Peak }))
	}
	return nil
}

// resolution times the decision of a new request class: all plugins but the last asked decline.
func resolution(ctx context.Context, o options) error {
	fmt.Printf("\nResolution of a new request class, ms: the first of a group, and the median of the seven after it:\n\n")
	fmt.Printf("| plugins |")
	for _, r := range o.ranks {
		fmt.Printf(" %d ranks: first | then |", r)
	}
	fmt.Printf("\n| --- |%s\n", strings.Repeat(" --- | --- |", len(o.ranks)))
	for _, plugins := range o.plugins {
		fmt.Printf("| %d |", plugins)
		for _, ranks := range o.ranks {
			first, rest, err := resolve(ctx, o, plugins, ranks)
			if err != nil {
				return err
			}
			fmt.Printf(" %.1f | %.1f |", first, rest)
		}
		fmt.Println()
	}
	return nil
}

var resolvedLine = regexp.MustCompile(`resolved: first ([\d.]+) ms, then ([\d.]+) ms`)

// resolve is the median of three runs.
func resolve(ctx context.Context, o options, plugins, ranks int) (first, rest float64, err error) {
	dir, err := os.MkdirTemp("", "overheads")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "weir.yaml")
	if err := os.WriteFile(file, []byte(config(o, plugins)), 0o600); err != nil {
		return 0, 0, err
	}
	var firsts, rests []float64
	for range 3 {
		out, err := weir(ctx, o, "run", "-q", "-c", file, "-n", strconv.Itoa(ranks), "--", filepath.Join(o.bin, "programs", "resolve"))
		if err != nil {
			return 0, 0, err
		}
		m := resolvedLine.FindStringSubmatch(string(out))
		if m == nil {
			return 0, 0, fmt.Errorf("output of resolve: %q", out)
		}
		f, err1 := strconv.ParseFloat(m[1], 64)
		r, err2 := strconv.ParseFloat(m[2], 64)
		if err1 != nil || err2 != nil {
			return 0, 0, fmt.Errorf("output of resolve: %q", out)
		}
		firsts, rests = append(firsts, f), append(rests, r)
	}
	slices.Sort(firsts)
	slices.Sort(rests)
	return firsts[1], rests[1], nil
}

// config is a configuration of the shm plugin and, before it, as many as are missing of those that decline.
func config(o options, plugins int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "plugin_dir: \"\"\ndeadlines:\n  start: 60s\nplugins:\n  shm:\n    path: %s\n", filepath.Join(o.bin, "plugins", "shm"))
	for i := range plugins - 1 {
		fmt.Fprintf(&b, "  decliner-%d:\n    path: %s\n    env:\n      DECLINER: decliner-%d\n", i, filepath.Join(o.bin, "programs", "decliner"), i)
	}
	return b.String()
}
