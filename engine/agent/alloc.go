package agent

import (
	"fmt"
	"slices"

	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// allocPage is what every rank's part of registered memory is a multiple of.
const allocPage = 4096

// registered is memory that ranks have been given.
type registered struct {
	bytes int64        // of all ranks
	freed map[int]bool // ranks that have let it go
}

// alloc takes a rank's wish for registered memory; when all ranks have come, each gets all parts.
func (g *group) alloc(rank int, id uint64, bytes int64) error {
	limit := g.job.agent.opts.MaxShared
	if bytes < 1 || bytes > limit {
		return fmt.Errorf("%d bytes of registered memory: give 1 to %d (shared.max_bytes, of all ranks together)", bytes, limit)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	r, err := g.meet(fmt.Sprintf("allocate %d bytes", bytes), rank, id, nil)
	if err != nil || r == nil {
		return err
	}
	stride := (bytes + allocPage - 1) / allocPage * allocPage
	size := stride * int64(len(g.ranks))
	if g.shared+size > limit {
		r.refuse(g, fmt.Errorf("%d bytes of registered memory for each of %d ranks: the group has %d of its %d bytes left (shared.max_bytes)",
			bytes, len(g.ranks), limit-g.shared, limit))
		return nil
	}
	window := g.freeWindow()
	if window == rankv1.MaxWindows {
		r.refuse(g, fmt.Errorf("the group has %d pieces of registered memory, which is the most: free some", window))
		return nil
	}
	file, err := newShared("weir-registered-"+g.id, size)
	if err != nil {
		r.refuse(g, err)
		return nil
	}
	g.shared += size
	x := &registered{bytes: size, freed: map[int]bool{}}
	if window == len(g.windows) {
		g.windows = append(g.windows, x)
	} else {
		g.windows[window] = x
	}
	g.answer(r, &rankv1.ToRank{Body: &rankv1.ToRank_Allocated{Allocated: &rankv1.Allocated{Stride: stride, Window: uint32(window)}}}, file)
	return nil
}

// freeWindow is the least number under which no rank has memory. g.mu is held.
func (g *group) freeWindow() int {
	if i := slices.Index(g.windows, nil); i >= 0 {
		return i
	}
	return len(g.windows)
}

// freeMemory takes a rank's word that it has let registered memory go. Memory that the last rank lets go counts no longer.
func (g *group) freeMemory(rank int, window uint32) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if int(window) >= len(g.windows) || g.windows[window] == nil {
		return fmt.Errorf("rank %d frees registered memory %d, which group %s does not have", rank, window, g.id)
	}
	x := g.windows[window]
	if x.freed[rank] = true; len(x.freed) == len(g.ranks) {
		g.windows[window] = nil
		g.shared -= x.bytes
	}
	return nil
}
