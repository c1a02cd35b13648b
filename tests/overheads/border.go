package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weir-project/weir/engine/bench"
)

// border times the same decided calls with the plugin alive and with it killed after the decision, in turns.
func border(ctx context.Context, o options) error {
	took := map[bool][]float64{}
	for pass := range o.passes {
		for _, kill := range []bool{pass%2 == 1, pass%2 == 0} { // neither is always the first
			t, err := timeCalls(ctx, o, kill)
			if err != nil {
				return err
			}
			took[kill] = append(took[kill], t)
		}
	}
	fmt.Printf("\nOne call of 8 B, 2 ranks, after the decision, µs (%d passes in turns):\n\n", o.passes)
	fmt.Printf("| plugin | least | median |\n| --- | --- | --- |\n")
	for _, kill := range []bool{false, true} {
		name := map[bool]string{false: "alive", true: "killed"}[kill]
		fmt.Printf("| %s | %.3f | %.3f |\n", name, slices.Min(took[kill]), bench.Median(took[kill]))
	}
	return nil
}

var callsLine = regexp.MustCompile(`calls, ([\d.]+) µs each`)

// timeCalls is the µs of one call on the slowest rank.
func timeCalls(ctx context.Context, o options, kill bool) (float64, error) {
	dir, err := os.MkdirTemp("", "overheads")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	gate := filepath.Join(dir, "gate")
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(o.bin, "weir"), "run", "-q", "-n", "2", "--",
		filepath.Join(o.bin, "programs", "calls"), "-calls", strconv.Itoa(o.calls), "-bind", "-gate", gate)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	slowest, err := follow(out, func() error {
		if kill {
			if err := killPlugins(cmd.Process.Pid); err != nil {
				return err
			}
		}
		return os.WriteFile(gate, nil, 0o600)
	})
	if err != nil {
		_ = cmd.Process.Signal(syscall.SIGTERM) // the error says more than that it has ended
		_ = cmd.Wait()
		return 0, err
	}
	return slowest, cmd.Wait()
}

// follow reads what the ranks print, does something when they have decided, and returns the slowest rank's time.
func follow(out io.Reader, decided func() error) (float64, error) {
	slowest := 0.0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.TrimSpace(lines.Text()) == "decided" {
			if err := decided(); err != nil {
				return 0, err
			}
		}
		if m := callsLine.FindStringSubmatch(lines.Text()); m != nil {
			t, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				return 0, err
			}
			slowest = max(slowest, t)
		}
	}
	if slowest == 0 {
		return 0, fmt.Errorf("the ranks printed no time")
	}
	return slowest, nil
}

// killPlugins kills the children of weir that are its plugins, and waits until they are gone.
func killPlugins(weir int) error {
	killed := 0
	children, err := childrenOf(weir)
	if err != nil {
		return err
	}
	for _, pid := range children {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err != nil || filepath.Base(filepath.Dir(exe)) != "plugins" {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return fmt.Errorf("kill plugin %s: %w", exe, err)
		}
		killed++
	}
	if killed == 0 {
		return fmt.Errorf("weir, process %d, has no plugin among its children", weir)
	}
	time.Sleep(50 * time.Millisecond) // weir notices and does what it does about it
	return nil
}

func childrenOf(pid int) ([]int, error) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil, err
	}
	var all []int
	for _, l := range lists {
		text, err := os.ReadFile(l)
		if err != nil {
			continue // that thread has ended
		}
		for _, f := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(f); err == nil {
				all = append(all, n)
			}
		}
	}
	return all, nil
}
