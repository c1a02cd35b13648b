package rank

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/sdk/internal/exec"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// patience is how long a rank whose group was aborted waits for the words why.
const patience = time.Second

// broken turns the failure of a call into the group's error and tells the agent, which tells the others.
func (g *Group) broken(number uint64, err error) error {
	if errors.Is(err, exec.ErrAborted) {
		return g.aborted()
	}
	return g.giveUp(g.words(number, err))
}

// words are what the ranks are told of the failure of a call.
func (g *Group) words(number uint64, err error) string {
	var mismatch *exec.Mismatch
	var late *exec.Late
	switch {
	case errors.As(err, &mismatch):
		return g.disagreement(number)
	case errors.As(err, &late):
		return g.lateness(number, late)
	}
	return err.Error()
}

// giveUp makes the group fail, also for the agent.
func (g *Group) giveUp(text string) error {
	e := g.fail(&GroupError{Group: g.id, Text: text})
	_ = g.session.conn.Send(&rankv1.FromRank{Body: &rankv1.FromRank_GroupFault{GroupFault: &rankv1.GroupFault{Group: g.id, Text: e.Text}}})
	return e
}

// aborted is the error of a group that somebody else declared dead. Who did leaves word why, or the agent sends it; if neither
// comes the board tells what can be seen.
func (g *Group) aborted() error {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if e := g.dead.Load(); e != nil {
			return e
		}
		if why := g.board.Why(); why != "" {
			return g.fail(&GroupError{Group: g.id, Text: why})
		}
	}
	return g.fail(&GroupError{Group: g.id, Text: g.abandoned()}) // if it has failed meanwhile that stays
}

// abandoned says what can be seen of why another rank gave the group up during this rank's last call.
func (g *Group) abandoned() string {
	own := g.board.Begun(g.rank)
	var mismatch *exec.Mismatch
	err := g.stalled()
	behind := g.behind(own.Number)
	switch {
	case errors.As(err, &mismatch):
		return g.disagreement(own.Number)
	case err != nil:
		return err.Error()
	case len(behind) > 0:
		return fmt.Sprintf("%s did not begin all-reduce %d, and another rank has given up: last, %s", ranksInWords(behind), own.Number, g.didAll(behind))
	}
	return fmt.Sprintf("a rank or the agent gave up during all-reduce %d without saying why", own.Number)
}

// stalled looks, while a call waits, for a peer that will not come.
func (g *Group) stalled() error {
	g.board.Waits(g.rank)
	own := g.board.Begun(g.rank)
	for rank := range g.ranks {
		peer := g.board.Begun(rank)
		switch {
		case rank == g.rank:
		case peer.Number == own.Number && (peer.Rejected || peer.Class != own.Class || peer.Bytes != own.Bytes):
			return &exec.Mismatch{Rank: rank}
		case peer.Refused == own.Number: // and has gone on since
			return &exec.Mismatch{Rank: rank}
		case peer.State != rankv1.Active && peer.Number < own.Number:
			return fmt.Errorf("%s; %s; %s", g.gone(rank, peer.State), g.did(rank), g.did(g.rank))
		}
	}
	return nil
}

// disagreement says who called what, in order of the lowest rank, so that every rank writes the same sentence.
func (g *Group) disagreement(number uint64) string {
	var order []string
	callers := map[string][]int{}
	for rank := range g.ranks {
		what := g.called(rank, number)
		if callers[what] == nil {
			order = append(order, what)
		}
		callers[what] = append(callers[what], rank)
	}
	parts := lo.Map(order, func(what string, _ int) string {
		ranks := callers[what]
		return fmt.Sprintf("%s: %s", ranksInWords(ranks), what)
	})
	return fmt.Sprintf("ranks disagree about all-reduce %d: %s", number, strings.Join(parts, "; "))
}

// called says what a rank has called as all-reduce number. One that has not come so far disagrees with nobody, but who reads this wants
// to know of it.
func (g *Group) called(rank int, number uint64) string {
	b := g.board.Begun(rank)
	r, recorded := g.board.RecordOf(rank, number)
	switch {
	case b.Refused == number && b.Number != number:
		return fmt.Sprintf("all-reduce %d with arguments that it refused, then %s", number, b)
	case recorded:
		return r.String()
	case b.Number > 0 && b.Number < number:
		return fmt.Sprintf("no further than %s", b)
	}
	return b.String()
}

// lateness says which ranks did not come, or which one does not go on if all have.
func (g *Group) lateness(number uint64, late *exec.Late) string {
	behind := g.behind(number)
	if len(behind) == 0 {
		return fmt.Sprintf("rank %d began all-reduce %d and did not finish its part within %s", late.Rank, number, g.deadline)
	}
	return fmt.Sprintf("%s did not begin all-reduce %d within %s: last, %s", ranksInWords(behind), number, g.deadline, g.didAll(behind))
}

// behind are the ranks that have not begun a call.
func (g *Group) behind(number uint64) []int {
	return lo.Filter(lo.Range(len(g.ranks)), func(rank, _ int) bool { return g.board.Begun(rank).Number < number })
}

func (g *Group) didAll(ranks []int) string {
	return strings.Join(lo.Map(ranks, func(rank, _ int) string { return g.did(rank) }), "; ")
}

// gone says in which way a rank takes no further part.
func (g *Group) gone(rank int, as rankv1.RankState) string {
	if as == rankv1.Lost {
		return fmt.Sprintf("rank %d (process %d) has ended", rank, g.facts.Ranks[rank].PID)
	}
	return fmt.Sprintf("rank %d has left the group", rank)
}

func (g *Group) did(rank int) string {
	return fmt.Sprintf("rank %d began %s", rank, g.board.Begun(rank))
}

func ranksInWords(ranks []int) string {
	return lo.Ternary(len(ranks) == 1, "rank ", "ranks ") + strings.Join(lo.Map(ranks, func(r, _ int) string { return fmt.Sprint(r) }), ", ")
}

// notServed is the error of a byte count that no backend accepted.
func notServed(t *table, class collective.Class, bytes int64) error {
	return fmt.Errorf("no backend serves %s of %d bytes: %s", class, bytes, strings.Join(lo.Map(t.answers, func(a dispatch.Answer, _ int) string {
		return fmt.Sprintf("%s: %s", a.Backend, a.Verdict)
	}), "; "))
}

// refused is the outcome of a step that failed in this rank.
func (g *Group) refused(code backend.Code, err error) backend.Reason {
	return backend.Reason{Code: code, Rank: g.rank, Text: err.Error()}
}
