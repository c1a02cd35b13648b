package rank

import (
	"fmt"
	"time"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/internal/exec"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// deviceWatch is what is remembered of a group from look to look at what its ranks have called.
type deviceWatch struct {
	number uint64      // call at which a peer was first seen to be behind; 0 for none
	waited exec.Waited // since then
	looked uint64      // calls begun, of all ranks together, when the recorded ones were compared last
	doubt  uint64      // call in progress that a peer was seen to have refused; 0 for none
}

// look is what the board shows of all ranks at one time.
type look struct {
	rank   int // who looks
	begun  []rankv1.Begun
	differ func() (number uint64, peer int, found bool) // compares the recorded calls
}

// trouble is what a look shows that a group cannot go on with. The zero value is none.
type trouble struct {
	number uint64 // of the call
	peer   int
	what   troubleKind
}

type troubleKind int

const (
	differs troubleKind = iota + 1 // the peer has made another call
	isGone                         // it takes no further part, and had not begun the call
	isLate                         // it has been waited for too long
)

// at is what a look at a time shows, for a group with a deadline.
func (w *deviceWatch) at(l look, now time.Time, deadline time.Duration) trouble {
	own := l.begun[l.rank]
	if own.Number == 0 || own.Class.Memory != collective.CUDA || own.Rejected {
		return trouble{}
	}
	begun := uint64(0)
	for _, b := range l.begun {
		begun += b.Number
	}
	if begun != w.looked { // also at calls before the last, which have gone by
		w.looked = begun
		if number, peer, found := l.differ(); found {
			return trouble{number, peer, differs}
		}
	}
	behind := -1
	for rank, peer := range l.begun {
		captured := peer.Class.Captured
		peer.Class.Captured = own.Class.Captured // a call is published before it is known whether it is captured
		switch {
		case rank == l.rank:
		case peer.Refused == own.Number && own.Done < own.Number && w.doubt != own.Number:
			w.doubt = own.Number // it may be about to be refused here too; if not, the next look will tell
			return trouble{}
		case peer.Number == own.Number && (peer.Rejected || peer.Class != own.Class || peer.Bytes != own.Bytes),
			peer.Refused == own.Number && own.Refused != own.Number:
			return trouble{own.Number, rank, differs}
		case peer.State != rankv1.Active && peer.Number < own.Number:
			return trouble{own.Number, rank, isGone}
		case peer.Number < own.Number, peer.Number == own.Number && captured != own.Class.Captured,
			own.Done == own.Number && peer.Number == own.Number && peer.Done < own.Number: // it stays inside a call that this rank came out of
			behind = rank
		}
	}
	switch {
	case behind < 0:
		w.number = 0
	case w.number != own.Number:
		w.number, w.waited = own.Number, exec.Waited{}
		w.waited.Until(now)
	case w.waited.Until(now) > deadline:
		return trouble{own.Number, behind, isLate}
	}
	return trouble{}
}

// compare looks at what the peers have called last.
func (g *Group) compare(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	l := look{rank: g.rank, begun: make([]rankv1.Begun, len(g.ranks)), differ: func() (uint64, int, bool) { return g.board.Differ(g.rank) }}
	own := g.board.Begun(g.rank) // before the peers, so that none is taken to be behind that is not
	for rank := range g.ranks {
		l.begun[rank] = g.board.Begun(rank)
	}
	l.begun[g.rank] = own
	switch found := g.watched.at(l, now, g.deadline); found.what {
	case differs:
		g.brokenLater(found.number, &exec.Mismatch{Rank: found.peer})
	case isGone:
		g.brokenLater(found.number, fmt.Errorf("%s; %s", g.gone(found.peer, l.begun[found.peer].State), g.did(g.rank)))
	case isLate:
		g.brokenLater(found.number, &exec.Late{Rank: found.peer})
	}
}

// brokenLater is broken for a caller that holds g.mu, as long as which there is a board to take the words from.
func (g *Group) brokenLater(number uint64, err error) {
	text := g.words(number, err)
	g.mu.Unlock()
	defer g.mu.Lock()
	_ = g.giveUp(text)
}
