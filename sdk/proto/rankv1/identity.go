package rankv1

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// Process is what tells a process from one that gets its number later, or has it in another PID namespace.
type Process struct {
	Space uint64 // inode of the PID namespace; 0 if it is not known
	Born  uint64 // when it was started, in clock ticks since the machine was
}

// self is this process; the zero Process if that cannot be found out.
var self = sync.OnceValue(func() Process {
	p, err := ProcessOf(os.Getpid())
	if err != nil {
		return Process{}
	}
	return p
})

// Self is this process; its Space is 0 if that cannot be found out.
func Self() Process { return self() }

// ProcessOf is the process that has a number now, in this process's PID namespace. The error is os.ErrNotExist if none has, or one
// that has ended and was not waited for.
func ProcessOf(pid int) (Process, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) { // it may only be hidden in /proc
			return Process{}, os.ErrNotExist
		}
		return Process{}, fmt.Errorf("process %d lives, and nothing can be found out about it: %v", pid, err)
	}
	// The name, in parentheses, may hold anything. What follows it are the state, the third field, and more.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const state, born = 0, 19 // the 22nd
	if len(fields) <= born {
		return Process{}, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	if fields[state] == "Z" || fields[state] == "X" {
		return Process{}, os.ErrNotExist
	}
	at, err := strconv.ParseUint(fields[born], 10, 64)
	if err != nil {
		return Process{}, err
	}
	info, err := os.Stat("/proc/self/ns/pid")
	if err != nil {
		return Process{}, err
	}
	space, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Process{}, fmt.Errorf("the PID namespace has no inode")
	}
	return Process{Space: space.Ino, Born: at}, nil
}

// Identify publishes which process a rank is. Only the rank itself calls it.
func (b *Board) Identify(rank int) {
	atomic.StoreUint64(b.rank(rank, offBorn), Self().Born)
	atomic.StoreUint64(b.rank(rank, offSpace), Self().Space)
}

// Identity is which process a rank said that it is; its Space is 0 if it has not.
func (b *Board) Identity(rank int) Process {
	p := Process{Space: atomic.LoadUint64(b.rank(rank, offSpace))}
	p.Born = atomic.LoadUint64(b.rank(rank, offBorn))
	return p
}

// State is whether a rank takes part.
func (b *Board) State(rank int) RankState {
	return RankState(atomic.LoadUint32((*uint32)(b.at(rank, offState))))
}
