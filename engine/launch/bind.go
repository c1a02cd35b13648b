package launch

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// bound calls start with the calling thread on the rank's core, which a process that it starts inherits. The caller is
// locked to its thread.
func (j *running) bound(rank int, start func() error) error {
	if !j.ranks.Bind {
		return start()
	}
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return fmt.Errorf("bind to a core: %w", err)
	}
	defer func() { _ = unix.SchedSetaffinity(0, &all) }() // these cores were ours before
	var one unix.CPUSet
	one.Set(nth(&all, rank%all.Count()))
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("bind to a core: %w", err)
	}
	return start()
}

// nth is the n-th core of a set that has as many.
func nth(set *unix.CPUSet, n int) int {
	for cpu := 0; ; cpu++ {
		if set.IsSet(cpu) {
			if n == 0 {
				return cpu
			}
			n--
		}
	}
}
