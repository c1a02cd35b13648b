package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/engine/bench"
)

// sample is what one start of a program measured.
type sample struct {
	Bytes  int64     `json:"bytes"`
	Wrong  int64     `json:"wrong"`
	Trials []float64 `json:"trials"` // µs per call, of consecutive parts of the loop
}

// start runs the commands at once and returns what the first prints. None of them, and nothing that they started, is left.
func start(ctx context.Context, commands []command, limit time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var out bytes.Buffer
	errs := make([]bytes.Buffer, len(commands))
	processes := make([]*exec.Cmd, 0, len(commands))
	defer func() {
		for _, p := range processes {
			_ = syscall.Kill(-p.Process.Pid, syscall.SIGKILL) // most have ended
		}
	}()
	ended := make(chan error, len(commands))
	for i, c := range commands {
		p := exec.Command(c.argv[0], c.argv[1:]...)
		p.Env = append(os.Environ(), c.env...)
		p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		p.WaitDelay = 2 * time.Second // for children that hold the output open
		p.Stderr = &errs[i]
		if i == 0 {
			p.Stdout = &out
		}
		if err := startOn(p, c.cpu); err != nil {
			return nil, err
		}
		processes = append(processes, p)
		go func() {
			err := p.Wait()
			if err != nil {
				err = fmt.Errorf("%s: %w: %s", c.argv[0], err, lastLine(errs[i].String()))
			}
			ended <- err
		}()
	}
	var first error
	for range processes {
		select {
		case err := <-ended:
			if err != nil && first == nil {
				first = err
			}
		case <-ctx.Done():
			if first == nil {
				first = fmt.Errorf("%s: not done after %s", commands[0].argv[0], limit)
			}
			return nil, first
		}
		if first != nil {
			return nil, first
		}
	}
	return out.Bytes(), nil
}

// startOn starts a process that may run on one core only, which it inherits from the thread that starts it.
func startOn(p *exec.Cmd, cpu int) error {
	if cpu < 0 {
		return p.Start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var old, only unix.CPUSet
	if err := unix.SchedGetaffinity(0, &old); err != nil {
		return err
	}
	only.Set(coreAt(cpu))
	if err := unix.SchedSetaffinity(0, &only); err != nil {
		return fmt.Errorf("core %d: %w", cpu, err)
	}
	defer func() { _ = unix.SchedSetaffinity(0, &old) }() // these cores were ours before
	return p.Start()
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// parseSample reads the line of JSON in a peer's output; launchers may print others.
func parseSample(out []byte, want cell) (sample, error) {
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(strings.TrimSpace(line), "{") {
			continue
		}
		var s sample
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			return s, fmt.Errorf("output %q: %w", strings.TrimSpace(line), err)
		}
		return s, s.check(want)
	}
	return sample{}, fmt.Errorf("no line of JSON in its output")
}

func (s sample) check(want cell) error {
	switch {
	case s.Bytes != want.Bytes:
		return fmt.Errorf("it measured %d bytes, not %d", s.Bytes, want.Bytes)
	case len(s.Trials) == 0:
		return fmt.Errorf("it printed no trials")
	case s.Wrong != 0:
		return fmt.Errorf("%d wrong elements", s.Wrong)
	}
	return nil
}

// parseWeir reads what `weir bench --format json` prints for one size.
func parseWeir(out []byte, want cell) (sample, string, error) {
	var d bench.Document
	if err := json.Unmarshal(out, &d); err != nil {
		return sample{}, "", fmt.Errorf("output of weir: %w", err)
	}
	if len(d.Results) != 1 || d.Results[0].OutOfPlace == nil {
		return sample{}, "", fmt.Errorf("weir measured %d sizes, want one out of place", len(d.Results))
	}
	r := d.Results[0]
	s := sample{Bytes: r.Size, Wrong: d.Wrong, Trials: r.OutOfPlace.Trials}
	return s, r.Backend, s.check(want)
}
