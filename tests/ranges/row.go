package main

import (
	"cmp"
	"fmt"
)

// margin is how much faster shm-direct must be where it begins: less is noise.
const margin = 0.97

// rowOf is the row of plugins/shm/ranges.go for so many ranks.
func rowOf(ranks int, cells []cell) string {
	flat := cells[0].bytes
	for _, c := range cells {
		t, tried := c.times["shm-flat"]
		if !tried || t > c.times["shm-twoshot"] {
			break
		}
		flat = c.bytes
	}
	return fmt.Sprintf("{%d, %s, %s},", ranks, size(flat), size(directFrom(cells)))
}

// directFrom is the smallest size at which shm-direct is faster than the others by the margin and beyond which it is
// nowhere slower; the largest size if there is none.
func directFrom(cells []cell) int64 {
	from := cells[len(cells)-1].bytes
	for i := len(cells) - 1; i >= 0; i-- {
		c := cells[i]
		best := c.times["shm-twoshot"]
		best = min(best, cmp.Or(c.times["shm-flat"], best))
		if c.times["shm-direct"] > best {
			break
		}
		if c.times["shm-direct"] <= margin*best {
			from = c.bytes
		}
	}
	return from
}

// size is a byte count as Go source.
func size(n int64) string {
	switch {
	case n%(1<<20) == 0:
		return fmt.Sprintf("%d << 20", n>>20)
	case n%(1<<10) == 0:
		return fmt.Sprintf("%d << 10", n>>10)
	}
	return fmt.Sprint(n)
}
