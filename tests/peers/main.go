// Command peers measures Weir's host all-reduce and that of other libraries on this machine in turns, and compares them.
//
// It is one self-contained program, so that it runs where there is no Go: give it the weir command and the folder of the
// peers' programs. What is missing on the machine is named and left out.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/samber/lo"
	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/engine/plot"
)

type options struct {
	weir, weirArgs, programs, python string
	ranks, sizes, types, only        string
	passes, scouting, keep           int
	seconds                          float64
	limit                            time.Duration
	out, plot                        string
	report                           bool
}

func main() {
	var o options
	flag.StringVar(&o.weir, "weir", "bin/weir", "`path` of weir; its plugins are beside it; \"\": peers only")
	flag.StringVar(&o.weirArgs, "weir-args", "", "further `arguments` of weir bench, separated by spaces")
	flag.StringVar(&o.programs, "programs", "bin/peers", "`folder` of the peers' programs")
	flag.StringVar(&o.python, "python", "python3", "`interpreter` that has PyTorch")
	flag.StringVar(&o.ranks, "ranks", "2,4,8", "`numbers` of ranks")
	flag.StringVar(&o.sizes, "sizes", "8,64,1K,14K,84K,224K,1M,16M,64M", "message `sizes`")
	flag.StringVar(&o.types, "types", "float32", "data `types` that Weir runs; peers run float32")
	flag.StringVar(&o.only, "peers", "", "only the `kinds` given: openmpi, mpich, gloo, torch")
	flag.IntVar(&o.passes, "passes", 10, "`times` that each cell is measured in turns")
	flag.IntVar(&o.scouting, "scout", 2, "`passes` before, with every setting, to find the best (0: all settings take turns)")
	flag.IntVar(&o.keep, "keep", 3, "`settings` of each cell that take turns with Weir")
	flag.Float64Var(&o.seconds, "seconds", 0.2, "`seconds` of one measurement")
	flag.DurationVar(&o.limit, "limit", time.Minute, "longest `time` of one start")
	flag.StringVar(&o.out, "out", "peers.json", "`file` for all figures")
	flag.StringVar(&o.plot, "plot", "", ".svg or .png `file`; the number of ranks is put before its ending")
	flag.BoolVar(&o.report, "report", false, "measure nothing; print the tables of the files given as arguments")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "peers: %s\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, files []string) error {
	if o.plot != "" {
		if err := plot.Check(o.plot); err != nil {
			return fmt.Errorf("-plot: %w", err)
		}
	}
	if o.report {
		return report(o, files)
	}
	p, err := o.plan()
	if err != nil {
		return err
	}
	mayUse() // before any thread is bound
	d := machine()
	var missing []string
	p.peers, d.Missing = findPeers(ctx, o.programs, o.python, p.cores)
	if o.only != "" {
		p.peers = lo.Filter(p.peers, func(x peer, _ int) bool { return slices.Contains(strings.Split(o.only, ","), x.kind) })
	}
	if p.weir, err = findWeir(o); err != nil {
		missing = append(missing, err.Error())
	}
	d.Missing, d.Seconds = append(d.Missing, missing...), p.seconds
	d.Peers = lo.Map(p.peers, func(x peer, _ int) string { return x.name })
	for _, m := range d.Missing {
		fmt.Fprintf(os.Stderr, "peers: missing: %s\n", m)
	}
	fmt.Fprintf(os.Stderr, "peers: measuring the machine's floors ...\n")
	d.Floors = measureFloors(p.cores, p.ranks, p.sizes)
	r := &runner{
		plan: p,
		say:  func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) },
		save: func(rows []row) error {
			d.Rows, d.End = rows, time.Now()
			return d.save(o.out)
		},
	}
	if err := r.run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return show(o, d)
}

func (o options) plan() (plan, error) {
	p := plan{passes: o.passes, scouting: o.scouting, keep: o.keep, seconds: o.seconds, limit: o.limit, cores: runtime.NumCPU(), types: strings.Split(o.types, ",")}
	ranks, err := parseList("ranks", o.ranks)
	if err != nil {
		return p, err
	}
	p.ranks = lo.Map(ranks, func(n int64, _ int) int { return int(n) })
	if p.sizes, err = parseList("sizes", o.sizes); err != nil {
		return p, err
	}
	switch {
	case o.passes < 1 || o.scouting < 0 || o.keep < 1:
		return p, fmt.Errorf("-passes and -keep are at least 1, -scout at least 0")
	case !(o.seconds > 0):
		return p, fmt.Errorf("-seconds: %g is not above 0", o.seconds)
	case !slices.Contains(p.types, peerType):
		return p, fmt.Errorf("-types: %s must be among them, it is what peers run", peerType)
	}
	return p, nil
}

func findWeir(o options) ([]string, error) {
	if o.weir == "" {
		return nil, nil
	}
	path, err := exec.LookPath(o.weir)
	if err != nil {
		return nil, named(weirName, "", err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	return append([]string{path}, strings.Fields(o.weirArgs)...), nil
}

func report(o options, files []string) error {
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
		if err := show(o, d); err != nil {
			return err
		}
	}
	return nil
}

func show(o options, d document) error {
	d.write(os.Stdout)
	if o.plot == "" {
		return nil
	}
	ending := filepath.Ext(o.plot)
	for _, n := range lo.Uniq(lo.Map(d.cells(), func(c cell, _ int) int { return c.Ranks })) {
		if err := d.figure(n).Save(fmt.Sprintf("%s-%d%s", strings.TrimSuffix(o.plot, ending), n, ending)); err != nil {
			return err
		}
	}
	return nil
}

// save replaces the file in one step.
func (d document) save(path string) error {
	text, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// machine is what this one is.
func machine() document {
	d := document{Cores: runtime.NumCPU(), Start: time.Now()}
	d.Host, _ = os.Hostname() // one without a name is fine
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		d.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		d.Load = strings.Join(strings.Fields(string(load))[:3], " ")
	}
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return d
	}
	for line := range strings.Lines(string(info)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			d.CPU = strings.TrimSpace(value)
			break
		}
	}
	return d
}
