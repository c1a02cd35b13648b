package agent

import (
	"fmt"

	"github.com/weir-project/weir/sdk/proto/rankv1"
	"github.com/weir-project/weir/sdk/proto/sealed"
)

// allocPage is what every rank's part of registered memory is a multiple of.
const allocPage = 4096

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
	file, err := sealed.New("weir-registered-"+g.id, size)
	if err != nil {
		r.refuse(g, err)
		return nil
	}
	g.shared += size
	g.answer(r, &rankv1.ToRank{Body: &rankv1.ToRank_Allocated{Allocated: &rankv1.Allocated{Stride: stride}}}, file)
	return nil
}
