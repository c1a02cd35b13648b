package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/engine/bench"
)

// row is one size of one column, measured once.
type row struct {
	Pass   int       `json:"pass"`
	Mode   string    `json:"mode"` // graph or eager
	Column string    `json:"column"`
	Bytes  int64     `json:"bytes"`
	Trials []float64 `json:"trials"` // µs per call, each the slowest rank's mean over a block of calls
	Wrong  int64     `json:"wrong"`
	Served string    `json:"served,omitempty"` // for the cascade: the backend
}

// Columns that are not backends of Weir.
const (
	direct       = "NCCL"
	cascade      = "cascade"
	torchOneShot = "torch one-shot"
	torchTwoShot = "torch two-shot"
)

// The graphs of both programs: 122 calls, as in a Kimi-K2.5 verify pass, launched three times in each of five blocks.
const (
	graphCalls    = 122
	graphLaunches = 3
	blocks        = 5
)

// runner makes the rows of a document, one start at a time.
type runner struct {
	options
	document
	bytes []int64
}

// look asks PyTorch what the machine is, and which NCCL it brings.
func (r *runner) look(ctx context.Context) error {
	const ask = `import json, torch, nvidia.nccl as n
v = torch.cuda.nccl.version()
print(json.dumps({"gpus": torch.cuda.device_count(), "gpu": torch.cuda.get_device_name(0), "torch": torch.__version__,
 "bundled": ".".join(map(str, v)), "nccl": list(n.__path__)[0] + "/lib/libnccl.so.2"}))`
	out, err := r.start(ctx, []string{r.python, "-c", ask}, nil)
	if err != nil {
		return fmt.Errorf("%s has no PyTorch for CUDA: %w", r.python, err)
	}
	var found struct {
		GPUs    int
		GPU     string
		Torch   string
		Bundled string
		NCCL    string
	}
	if err := json.Unmarshal(lastLine(out), &found); err != nil {
		return err
	}
	if found.GPUs < r.ranks {
		return fmt.Errorf("%d ranks need as many GPUs; here are %d", r.ranks, found.GPUs)
	}
	if r.nccl == "" {
		r.nccl = found.NCCL
	}
	driver, err := r.start(ctx, []string{"nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"}, nil)
	if err != nil {
		return err
	}
	r.document = document{
		GPU: found.GPU, Ranks: r.ranks, Driver: string(lastLine(driver)), Torch: found.Torch, NCCL: found.Bundled, Type: r.dataType,
		NoP2P: r.noP2P, Start: time.Now(),
	}
	return nil
}

// turn measures everything once: what Weir's backends do alone, what the cascade does, and the peers.
func (r *runner) turn(ctx context.Context, pass int, mode string) error {
	starts := []struct {
		name string
		args []string
	}{
		{"each backend", []string{"--all-backends"}},
		{"the cascade", nil},
	}
	if !r.noP2P {
		starts = append(starts, struct {
			name string
			args []string
		}{"nccl-symm", []string{"--backend", "nccl-symm", "-R", "1"}})
	}
	for _, s := range starts {
		if err := r.say(pass, mode, s.name, func() error { return r.ours(ctx, pass, mode, s.args) }); err != nil {
			return err
		}
	}
	return r.say(pass, mode, "peers", func() error { return r.peers(ctx, pass, mode) })
}

func (r *runner) say(pass int, mode, what string, do func() error) error {
	begin := time.Now()
	err := do()
	fmt.Fprintf(os.Stderr, "pass %d, %s: %s: %s %s\n", pass, mode, what, lo.Ternary(err == nil, "done in", "failed after"), time.Since(begin).Round(time.Millisecond))
	if err != nil {
		err = fmt.Errorf("%s, %s: %w", mode, what, err)
	}
	return err
}

// ours runs weir bench, one size at a time in the same start.
func (r *runner) ours(ctx context.Context, pass int, mode string, args []string) error {
	argv := []string{
		r.weir, "bench", "--memory", "cuda", "--ranks", strconv.Itoa(r.ranks), "-d", r.dataType, "--place", "out",
		"--sizes", strings.Join(lo.Map(r.bytes, func(n int64, _ int) string { return strconv.FormatInt(n, 10) }), ","), "--format", "json",
	}
	if mode == "graph" {
		argv = append(argv, "-n", strconv.Itoa(graphCalls*blocks), "-G", strconv.Itoa(graphLaunches))
	} else {
		argv = append(argv, "--seconds", strconv.FormatFloat(r.seconds, 'g', -1, 64))
	}
	env := []string{"WEIR_PLUGINS__NCCL__SETTINGS__LIBRARY=" + r.nccl}
	if r.noP2P {
		env = append(env, "WEIR_CASCADE__DISABLED=oneshot,twoshot,nccl-symm")
	}
	out, err := r.start(ctx, append(argv, args...), env)
	if err != nil {
		return err
	}
	var d bench.Document
	if err := json.Unmarshal(out, &d); err != nil {
		return fmt.Errorf("output of weir bench: %w", err)
	}
	for _, x := range d.Results {
		if x.OutOfPlace == nil {
			continue // this backend does not serve that size
		}
		column, served := x.Pinned, ""
		if column == "" {
			column, served = cascade, x.Backend
		}
		if err := r.add(row{pass, mode, column, x.Size, x.OutOfPlace.Trials, lo.FromPtr(x.OutOfPlace.Wrong), served}); err != nil {
			return err
		}
	}
	return nil
}

// peers runs NCCL and PyTorch. Each line that the program prints is a row.
func (r *runner) peers(ctx context.Context, pass int, mode string) error {
	argv := []string{r.python, r.program, "--world", strconv.Itoa(r.ranks), "--nccl", r.nccl, "--loops", r.loops, "--type", r.dataType}
	if mode == "graph" {
		argv = append(argv, "--graph", strconv.Itoa(graphCalls), "--launches", strconv.Itoa(graphLaunches))
	}
	if r.noP2P {
		argv = append(argv, "--no-symmetric")
	}
	argv = append(argv, "--blocks", strconv.Itoa(blocks), "--seconds", strconv.FormatFloat(r.seconds, 'g', -1, 64))
	for _, n := range r.bytes {
		argv = append(argv, strconv.FormatInt(n, 10))
	}
	out, err := r.start(ctx, argv, nil)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(out) {
		if !bytes.HasPrefix(line, []byte("{")) {
			continue
		}
		x := row{Pass: pass, Mode: mode}
		if err := json.Unmarshal(line, &x); err != nil {
			return fmt.Errorf("output %q: %w", line, err)
		}
		if err := r.add(x); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) add(x row) error {
	if x.Wrong != 0 {
		return fmt.Errorf("%s: %d bytes: %d wrong elements", x.Column, x.Bytes, x.Wrong)
	}
	if len(x.Trials) == 0 {
		return fmt.Errorf("%s: %d bytes: nothing was measured", x.Column, x.Bytes)
	}
	r.Rows = append(r.Rows, x)
	return nil
}

// start runs a program to its end and returns what it prints. What it started is killed with it.
func (r *runner) start(ctx context.Context, argv, env []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	var errs bytes.Buffer
	p := exec.CommandContext(ctx, argv[0], argv[1:]...)
	p.Env = slices.Concat(os.Environ(), env)
	if r.noP2P {
		p.Env = append(p.Env, "NCCL_P2P_DISABLE=1")
	}
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.Cancel = func() error { return syscall.Kill(-p.Process.Pid, syscall.SIGKILL) }
	p.WaitDelay = 2 * time.Second
	p.Stderr = &errs
	out, err := p.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", argv[0], err, strings.TrimSpace(errs.String()))
	}
	return out, nil
}

func lastLine(out []byte) []byte {
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	return bytes.TrimSpace(lines[len(lines)-1])
}
