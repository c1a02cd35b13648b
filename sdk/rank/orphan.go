package rank

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// peerLook is how often a rank without an agent looks whether its peers live.
const peerLook = 100 * time.Millisecond

// watchPeers notices the end of peers' processes from when the agent is lost: nobody else tells. A peer in another PID namespace
// cannot be watched; that it has ended is noticed at the deadline of a call.
func (s *Session) watchPeers() {
	tick := time.NewTicker(peerLook)
	defer tick.Stop()
	for {
		for _, g := range s.allGroups() {
			if why := g.endedPeer(); why != "" {
				g.fail(&GroupError{Group: g.id, Text: why})
			}
		}
		select {
		case <-s.life.Done():
			return
		case <-tick.C:
		}
	}
}

// endedPeer marks the ranks whose processes have ended without their having left. It says why the group cannot go on, if one of
// them had begun, or was awaited in, a call: as the agent decides it.
func (g *Group) endedPeer() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.dead.Load() != nil {
		return ""
	}
	for rank := range g.ranks {
		id, pid := g.board.Identity(rank), g.facts.Ranks[rank].PID
		if rank == g.rank || g.board.State(rank) != rankv1.Active || id.Space == 0 || id.Space != rankv1.Self().Space {
			continue
		}
		if now, err := rankv1.ProcessOf(pid); err == nil && now == id || err != nil && !errors.Is(err, os.ErrNotExist) {
			continue
		}
		if g.board.State(rank) != rankv1.Active { // it said so just before it ended
			continue
		}
		last := g.board.Begun(rank)
		for peer := range g.ranks {
			if len(g.devicePlans) > 0 || g.board.Number(peer) > last.Done {
				return fmt.Sprintf("%s; it began %s", g.gone(rank, rankv1.Lost), last)
			}
		}
		g.board.Leave(rank, rankv1.Lost) // nobody misses it so far
	}
	return ""
}
