// Command badrank is a rank that does one thing wrong, chosen by its first argument.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/rank"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "badrank: %s\n", err)
		os.Exit(1)
	}
}

// one reports whether this is the rank that misbehaves where only one does.
func one() bool { return os.Getenv(rank.EnvRank) == "1" }

func run(fault string) error {
	if one() {
		switch fault {
		case "exits before joining":
			fmt.Fprintln(os.Stderr, "last words")
			os.Exit(7)
		case "never joins":
			time.Sleep(time.Hour)
		case "leaves a child":
			if err := exec.Command("sleep", "3600").Start(); err != nil {
				return err
			}
		}
	}
	if fault == "little memory" {
		if err := limitMemory(256 << 20); err != nil {
			return err
		}
	}
	s, err := rank.Join(context.Background(), rank.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	g, b := s.World(), make([]float32, 64)
	if err := rank.AllReduce(g, b, b, collective.Sum); err != nil {
		return err
	}
	switch fault {
	case "exits after joining":
		if one() {
			fmt.Fprintln(os.Stderr, "first of the last words\nlast words")
			os.Exit(7)
		}
		return loop(g, b)
	case "different lengths":
		return rank.AllReduce(g, b[:g.Rank()+1], b[:g.Rank()+1], collective.Sum)
	case "dst shorter than src":
		return rank.AllReduce(g, b[:3], b[10:14], collective.Sum)
	case "partial overlap":
		return rank.AllReduce(g, b[:32], b[16:48], collective.Sum)
	case "zero length":
		return rank.AllReduce(g, b[:0], b[:0], collective.Sum)
	case "use after close":
		if err := g.Close(); err != nil {
			return err
		}
		return rank.AllReduce(g, b, b, collective.Sum)
	case "outlives plugins":
		return outlive(g, b)
	case "outlives the agent":
		return outliveAgent(s, b)
	case "loops":
		return loop(g, b)
	case "never joins", "exits before joining", "leaves a child", "little memory", "nothing":
		return nil
	}
	return errors.New("unknown fault: " + fault)
}

// limitMemory lets the process map only so much more.
func limitMemory(more uint64) error {
	var pages uint64
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return err
	}
	if _, err := fmt.Sscan(string(text), &pages); err != nil {
		return err
	}
	limit := pages*uint64(os.Getpagesize()) + more
	return syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: limit, Max: limit})
}

// outlive makes decided calls until whoever started it has killed the plugins, and then one that is not decided.
func outlive(g *rank.Group, b []float32) error {
	if g.Rank() == 0 {
		fmt.Println("decided")
	}
	ctx := context.Background()
	const calls = 1_000_000
	for i := range calls {
		if i%1000 == 0 { // spread over a second at least, in which the plugins are killed
			time.Sleep(time.Millisecond)
		}
		if err := rank.AllReduce(g, b[:2], b[:2], collective.Sum); err != nil {
			return err
		}
	}
	if g.Rank() == 0 {
		fmt.Fprintln(os.Stderr, "a million decided calls went well")
	}
	if err := g.Barrier(ctx); err != nil {
		return err
	}
	n := make([]int32, 4)
	return rank.AllReduce(g, n, n, collective.Max)
}

// outliveAgent makes decided calls until the agent has been killed and for a while longer, and then what needs an agent.
func outliveAgent(s *rank.Session, b []float32) error {
	g, ctx := s.World(), context.Background()
	over := make([]float32, 64)
	for over[0] == 0 { // all ranks end after the same call
		over[0] = 0
		if _, err := os.Stat(os.Getenv(rank.EnvSocket)); err != nil && g.Rank() == 0 {
			over[0] = 1
		}
		if err := rank.AllReduce(g, over, over, collective.Sum); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond) // until all have heard of it
	for range 1000 {
		if err := rank.AllReduce(g, b, b, collective.Sum); err != nil {
			return err
		}
	}
	fmt.Println("decided calls went well")
	n := make([]int32, 4)
	fmt.Println("a class that is not decided:", rank.AllReduce(g, n, n, collective.Max))
	_, err := s.NewGroup(ctx, []int{0, 1, 2})
	fmt.Println("a new group:", err)
	_, err = g.Alloc(ctx, 4096)
	fmt.Println("memory:", err)
	fmt.Println("a barrier:", g.Barrier(ctx))
	return rank.AllReduce(g, b, b, collective.Sum)
}

// loop all-reduces until somebody ends it.
func loop(g *rank.Group, b []float32) error {
	if g.Rank() == 0 {
		fmt.Println("looping")
	}
	for {
		if err := rank.AllReduce(g, b, b, collective.Max); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}
