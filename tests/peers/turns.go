package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/engine/bench"
)

// row is one start of one program.
type row struct {
	cell
	Pass    int       `json:"pass"` // -1 and below: looking for the best settings
	Peer    string    `json:"peer"`
	Setting string    `json:"setting"` // for Weir the backend that served
	Trials  []float64 `json:"trials"`  // µs per call
	Time    float64   `json:"us"`      // median of the trials
	Before  float64   `json:"before_ns"`
	After   float64   `json:"after_ns"` // hand-over between cores around the start
	Error   string    `json:"error,omitempty"`
	At      time.Time `json:"at"`
}

// weirName is what rows of Weir have as their peer.
const weirName = "Weir"

// plan is what is to be measured.
type plan struct {
	weir     []string // command, and what to add to the arguments of weir bench; nil: peers only
	peers    []peer
	ranks    []int
	sizes    []int64
	types    []string // of Weir; peers run float32
	passes   int
	scouting int // passes that look for the best settings
	keep     int // settings of a cell that take turns with Weir
	seconds  float64
	limit    time.Duration // of one start
	cores    int
}

// runner makes a plan's rows, one start at a time.
type runner struct {
	plan
	say    func(format string, args ...any)
	save   func([]row) error // after every turn
	rows   []row
	placed float64 // hand-over as last probed
}

const peerType = "float32"

func (r *runner) cells() []cell {
	var all []cell
	for _, n := range r.ranks {
		for _, b := range r.sizes {
			all = append(all, cell{Ranks: n, Bytes: b, Type: peerType})
		}
	}
	return all
}

// run measures until it is done or ctx is. What has been measured is kept.
func (r *runner) run(ctx context.Context) error {
	for pass := -r.scouting; pass < r.passes; pass++ {
		for _, c := range r.cells() {
			if err := r.turn(ctx, c, pass); err != nil {
				return err
			}
			if err := r.save(r.rows); err != nil {
				return err
			}
		}
	}
	return nil
}

// candidate is a setting of a peer that is here.
type candidate struct {
	peer    peer
	setting setting
}

// turn runs Weir and the settings worth it, one after the other, with a look at the placement of the cores between.
func (r *runner) turn(ctx context.Context, c cell, pass int) error {
	r.placed = handOver(min(c.Ranks, r.cores))
	if r.weir != nil && pass >= 0 {
		for _, t := range r.types {
			if err := r.one(ctx, pass, cell{c.Ranks, c.Bytes, t}, weirName, "", nil); err != nil {
				return err
			}
		}
	}
	for _, x := range r.candidates(c, pass) {
		if err := r.one(ctx, pass, c, x.peer.name, x.setting.label, &x); err != nil {
			return err
		}
	}
	return nil
}

// candidates are all settings for a cell while looking for the best, then the best of those.
func (r *runner) candidates(c cell, pass int) []candidate {
	var all []candidate
	for _, p := range r.peers {
		for _, s := range p.settings {
			if s.fits(c.Ranks, r.cores, c.Bytes) && !r.failed(c, p.name, s.label) {
				all = append(all, candidate{p, s})
			}
		}
	}
	if pass < 0 || r.scouting == 0 {
		return all
	}
	best := func(x candidate) float64 {
		times := lo.FilterMap(r.rows, func(row row, _ int) (float64, bool) {
			return row.Time, row.cell == c && row.Peer == x.peer.name && row.Setting == x.setting.label && row.Error == "" && row.Pass < 0
		})
		return lo.Min(times)
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		if best(a) < best(b) {
			return -1
		}
		return 1
	})
	return all[:min(r.keep, len(all))]
}

// failed reports that a setting did not work for a cell, so that it is not tried for ever.
func (r *runner) failed(c cell, peer, label string) bool {
	return slices.ContainsFunc(r.rows, func(x row) bool {
		return x.cell == c && x.Peer == peer && x.Setting == label && x.Error != ""
	})
}

// one starts one program for one cell. Only the end of ctx is an error: a program that fails is a row that says so.
func (r *runner) one(ctx context.Context, pass int, c cell, name, label string, x *candidate) error {
	result := row{cell: c, Pass: pass, Peer: name, Setting: label, Before: r.placed, At: time.Now()}
	s, served, err := r.start(ctx, c, x)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if served != "" {
		result.Setting = served
	}
	if err != nil {
		result.Error = err.Error()
	} else {
		result.Trials, result.Time = s.Trials, bench.Median(s.Trials)
	}
	r.placed = handOver(min(c.Ranks, r.cores))
	result.After = r.placed
	r.rows = append(r.rows, result)
	r.say("pass %d, %d ranks, %d B %s: %s (%s): %s", pass, c.Ranks, c.Bytes, c.Type, name, result.Setting,
		lo.Ternary(err == nil, bench.Duration(result.Time), "failed: "+result.Error))
	return nil
}

func (r *runner) start(ctx context.Context, c cell, x *candidate) (sample, string, error) {
	if x == nil {
		argv := slices.Concat(r.weir[:1], []string{
			"bench", "--ranks", strconv.Itoa(c.Ranks), "-b", strconv.FormatInt(c.Bytes, 10), "-e", strconv.FormatInt(c.Bytes, 10),
			"-d", c.Type, "--place", "out", "--format", "json", "--seconds", strconv.FormatFloat(r.seconds, 'g', -1, 64),
		}, r.weir[1:])
		out, err := start(ctx, []command{{argv: argv, cpu: -1}}, r.limit)
		if err != nil {
			return sample{}, "", err
		}
		return parseWeir(out, c)
	}
	folder, err := os.MkdirTemp("", "peers")
	if err != nil {
		return sample{}, "", err
	}
	defer os.RemoveAll(folder)
	out, err := start(ctx, x.peer.commands(x.setting, c, r.seconds, folder), r.limit)
	if err != nil {
		return sample{}, "", err
	}
	s, err := parseSample(out, c)
	return s, "", err
}

// parseList reads numbers separated by commas, as bytes with a unit if sizes are wanted.
func parseList(flag, text string) ([]int64, error) {
	var all []int64
	for part := range strings.SplitSeq(text, ",") {
		n, err := bench.ParseBytes(strings.TrimSpace(part))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-%s: %q is not a list of numbers above 0, such as 8,14K,1M", flag, text)
		}
		all = append(all, n)
	}
	return all, nil
}
