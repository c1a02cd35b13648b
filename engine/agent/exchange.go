package agent

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// maxExchange is the most that one rank may give to an exchange: it is for unique ids, handles and the like.
const maxExchange = 1 << 20

// round is an exchange, of bytes or of memory, in progress.
type round struct {
	what  string         // every rank does the same
	ids   map[int]uint64 // request of each rank that has come
	data  [][]byte       // what each gives
	timer *time.Timer
}

// exchange takes a rank's bytes; when all ranks have given theirs, each gets all.
func (g *group) exchange(rank int, id uint64, data []byte) error {
	if len(data) > maxExchange {
		return fmt.Errorf("%d bytes to exchange, at most %d", len(data), maxExchange)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	r, err := g.meet("exchange", rank, id, data)
	if err != nil || r == nil {
		return err
	}
	g.answer(r, &rankv1.ToRank{Body: &rankv1.ToRank_Exchanged{Exchanged: &rankv1.Exchanged{Data: r.data}}}, nil)
	return nil
}

// meet adds a rank to the round in progress; the round is not nil when it was the last one. g.mu is held.
func (g *group) meet(what string, rank int, id uint64, data []byte) (*round, error) {
	if err := g.usable(); err != nil {
		return nil, err
	}
	r := g.round
	if r == nil {
		r = &round{what: what, ids: map[int]uint64{}, data: make([][]byte, len(g.ranks))}
		r.timer = time.AfterFunc(g.job.agent.opts.CallDeadline, func() { g.expire(r) })
		g.round = r
	}
	if _, twice := r.ids[rank]; twice {
		return nil, fmt.Errorf("rank %d began a second exchange before the first had ended", rank)
	}
	if r.what != what {
		err := fmt.Errorf("rank %d wants to %s, but %s to %s: all ranks of a group do the same", rank, what, rankList(lo.Keys(r.ids)), r.what)
		g.round = nil
		r.refuse(g, err)
		return nil, err
	}
	r.ids[rank], r.data[rank] = id, data
	if len(r.ids) < len(g.ranks) {
		return nil, nil
	}
	r.timer.Stop()
	g.round = nil
	return r, nil
}

// answer sends every rank of a round the same message, with a file that is closed when all have it; nil for none.
func (g *group) answer(r *round, m *rankv1.ToRank, file *os.File) {
	var sent sync.WaitGroup
	for rank, id := range r.ids {
		sent.Add(1)
		g.job.agent.wg.Go(func() { // each by itself: one that does not read must not hold up the others
			defer sent.Done()
			_ = g.members[rank].conn.Send(&rankv1.ToRank{Id: id, Body: m.Body}, lo.Without([]*os.File{file}, nil)...)
		})
	}
	if file != nil {
		g.job.agent.wg.Go(func() {
			sent.Wait()
			_ = file.Close() // the ranks keep the memory
		})
	}
}

// deadGroup is the error of a request to a group that has failed.
type deadGroup struct{ group, text string }

func (e *deadGroup) Error() string { return fmt.Sprintf("group %s has failed: %s", e.group, e.text) }

// usable says why the group takes no more requests. g.mu is held.
func (g *group) usable() error {
	if g.dead != "" {
		return &deadGroup{g.id, g.dead}
	}
	if _, rank, gone := lo.FindIndexOf(g.gone, func(gone bool) bool { return gone }); gone {
		return fmt.Errorf("rank %d has left the group", rank)
	}
	return nil
}

func (g *group) expire(r *round) {
	g.mu.Lock()
	if g.round != r {
		g.mu.Unlock()
		return
	}
	g.round = nil
	g.mu.Unlock()
	missing := lo.Filter(lo.Range(len(g.ranks)), func(rank, _ int) bool { _, gave := r.ids[rank]; return !gave })
	r.refuse(g, fmt.Errorf("%s did not %s within %s", rankList(missing), r.what, g.job.agent.opts.CallDeadline))
}

// refuse answers every rank that waits with an error. A nil round has none.
func (r *round) refuse(g *group, err error) {
	if r == nil {
		return
	}
	r.timer.Stop()
	for rank, id := range r.ids {
		g.members[rank].refuse(id, err)
	}
}
