package rank

import (
	"errors"
	"os"
	"testing"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/proto/rankv1"
	"github.com/weir-project/weir/tests/await"
)

// decidingAgent has a rank join and ask for a class, and goes on with then.
func decidingAgent(t *testing.T, good *os.File, then func(c *rankv1.Conn, id uint64)) Options {
	return fakeAgent(t, func(c *rankv1.Conn) {
		var m rankv1.FromRank
		_ = c.Receive(&m)
		if err := c.Send(ready(nil), good); err != nil {
			t.Error(err)
		}
		for c.Receive(&m) == nil {
			if m.GetResolve() != nil {
				then(c, m.Id)
			}
		}
	})
}

// firstCall is what a rank's first call ends with. The agent leaves it to wait for longer than any test may take.
func firstCall(t *testing.T, opts Options) error {
	t.Helper()
	s, err := Join(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ended := make(chan error, 1)
	go func() { ended <- AllReduce(s.World(), make([]float32, 27), make([]float32, 27), collective.Sum) }()
	return await.Receive(t, "the end of a first call whose decision will not come", ended)
}

// TestGroupFailsWhileDeciding: a rank that waits for a decision is told that its group has failed, though nobody answers what it
// asked for.
func TestGroupFailsWhileDeciding(t *testing.T) {
	noLeaks(t)
	good := board(t, rankv1.BoardSize(2), bothSeals)
	err := firstCall(t, decidingAgent(t, good, func(c *rankv1.Conn, _ uint64) {
		fault := &rankv1.GroupFault{Group: "g1", Text: "rank 0 began all-reduce 1 and did not finish its part within 1s"}
		if err := c.Send(&rankv1.ToRank{Body: &rankv1.ToRank_GroupFault{GroupFault: fault}}); err != nil {
			t.Error(err)
		}
	}))
	var failed *GroupError
	if !errors.As(err, &failed) || failed.Text != "rank 0 began all-reduce 1 and did not finish its part within 1s" {
		t.Errorf("error %v, want the group's", err)
	}
}

// TestMoreAnswersThanAgreed: of the messages to a rank that decides none is lost. An agent that sends more than there is room for while
// the rank is busy is not obeyed in part, which would have the ranks wait for each other: it is found out.
func TestMoreAnswersThanAgreed(t *testing.T) {
	noLeaks(t)
	s := newSessionFor(t)
	id, answers, err := s.begin(&rankv1.FromRank{Body: &rankv1.FromRank_Resolve{Resolve: &rankv1.Resolve{Group: "g1"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.end(id)
	<-s.done // nobody takes what comes
	if len(answers) != mostAnswers {
		t.Errorf("%d answers are kept, want %d", len(answers), mostAnswers)
	}
	_, _, err = s.begin(&rankv1.FromRank{})
	if want := "the agent cannot be asked: it answers request 2 more often than was agreed"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}

// newSessionFor is a session whose agent answers what it decides for once too often.
func newSessionFor(t *testing.T) *Session {
	t.Helper()
	good := board(t, rankv1.BoardSize(2), bothSeals)
	s, err := Join(t.Context(), decidingAgent(t, good, func(c *rankv1.Conn, id uint64) {
		for range mostAnswers + 1 {
			if err := c.Send(&rankv1.ToRank{Id: id, Body: &rankv1.ToRank_Discard{Discard: &rankv1.Discard{}}}); err != nil {
				t.Error(err)
			}
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
