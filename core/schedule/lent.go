package schedule

import (
	"fmt"

	"github.com/weir-project/weir/core/plan"
)

// lend prepares for schedules that read other ranks' buffers.
func (p *proof) lend() {
	if p.s.Direct() {
		p.lent = make([][]touch, len(p.s.Programs))
	}
}

// begun refuses to read the buffer of a rank whose caller may not have made the call yet.
func (p *proof) begun(w *walk, e Event, at plan.Place) error {
	if at.Rank == e.Rank || w.clocks[e.Rank][at.Rank] > 0 {
		return nil
	}
	return refuse(p.s, e, nil, fmt.Sprintf("reads %s, who may not have made the call by then: nothing before it waits for a signal of rank %d",
		place(at), at.Rank))
}

// returned refuses reads, in tile 1, of the buffer of a rank who may have ended the tile by then.
func (p *proof) returned(w *walk) error {
	for owner, list := range p.lent {
		if err := p.spend(len(list) + 1); err != nil {
			return err
		}
		for _, u := range list {
			if u.rank != owner && u.read > w.clocks[owner][u.rank] {
				e := w.event(u.rank, u.read)
				return refuse(p.s, e, nil, fmt.Sprintf("reads the buffer of rank %d, whose call may be over by then: nothing makes rank %d wait for it", owner, owner))
			}
		}
	}
	return nil
}
