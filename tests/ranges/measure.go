package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/engine/bench"
)

// machine is the measurements for one number of ranks.
type machine struct {
	weir    string
	ranks   int
	passes  int
	seconds float64
	times   []cell
}

// cell is one message size: the median time of each backend over the passes, in µs.
type cell struct {
	bytes int64
	times map[string]float64
}

// sizes are where the backends give way to one another on any machine seen so far.
var sizes = []int64{256, 512, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 4 << 20, 16 << 20}

// flatMost bounds where flat is tried: beyond it reads the whole message many times, which takes long and leads nowhere.
const flatMost = 64 << 10

// contenders are the backends worth trying for a size.
func contenders(bytes int64) []string {
	names := []string{"shm-twoshot", "shm-direct"}
	if bytes <= flatMost {
		names = append(names, "shm-flat")
	}
	return names
}

func (m *machine) measure(ctx context.Context) error {
	all := map[int64]map[string][]float64{}
	for _, n := range sizes {
		all[n] = map[string][]float64{}
	}
	for pass := range m.passes {
		for i, n := range sizes {
			fmt.Fprintf(os.Stderr, "\r%d ranks, pass %d of %d, %-10s", m.ranks, pass+1, m.passes, backend.Size(sizes[i]))
			for _, name := range contenders(n) {
				t, err := m.one(ctx, name, n)
				if err != nil {
					return err
				}
				all[n][name] = append(all[n][name], t)
			}
		}
	}
	fmt.Fprintln(os.Stderr)
	for _, n := range sizes {
		m.times = append(m.times, cell{n, lo.MapValues(all[n], func(t []float64, _ string) float64 { return bench.Median(t) })})
	}
	return nil
}

// one is the time of one call in µs. In place, so that peers' buffers change from call to call as they do in real programs:
// a rank that reads registered memory would otherwise find it in its own cache.
func (m *machine) one(ctx context.Context, name string, bytes int64) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	size := strconv.FormatInt(bytes, 10)
	args := []string{
		"bench", "--ranks", strconv.Itoa(m.ranks), "--bind", "core", "--backend", name, "-b", size, "-e", size, "--place", "in", "-c", "0",
		"--seconds", fmt.Sprint(m.seconds), "--format", "json",
	}
	if name == "shm-direct" {
		args = append(args, "--local_register", "1")
	}
	cmd := exec.CommandContext(ctx, m.weir, args...)
	cmd.Env = append(os.Environ(), "WEIR_PLUGINS__SHM__SETTINGS__EVERY_SIZE=true")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("weir %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	var d bench.Document
	if err := json.Unmarshal(out, &d); err != nil {
		return 0, fmt.Errorf("weir %s: %w", strings.Join(args, " "), err)
	}
	if len(d.Results) != 1 || d.Results[0].InPlace == nil {
		return 0, fmt.Errorf("weir %s: no result", strings.Join(args, " "))
	}
	return bench.Median(d.Results[0].InPlace.Trials), nil
}

// print writes the medians as a table.
func (m *machine) print(w io.Writer) {
	names := contenders(flatMost)
	fmt.Fprintf(w, "%d ranks, µs in place, median of %d\n%10s", m.ranks, m.passes, "")
	for _, name := range names {
		fmt.Fprintf(w, " %14s", name)
	}
	fmt.Fprintln(w)
	for _, c := range m.times {
		fmt.Fprintf(w, "%10s", backend.Size(c.bytes))
		for _, name := range names {
			text := "-"
			if t, ok := c.times[name]; ok {
				text = fmt.Sprintf("%.4g", t)
			}
			fmt.Fprintf(w, " %14s", text)
		}
		fmt.Fprintln(w)
	}
}
