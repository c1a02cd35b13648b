package agent

import (
	"testing"

	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// A rank that gives its Join up while it is alone, and ends, leaves no job behind that can never form: the next ranks join.
func TestJoinAfterOneWasGivenUp(t *testing.T) {
	a := startAgent(t, 2, nil)
	defer a.Close()
	c := dial(t, a)
	id := c.say(join(0, 2))
	until(t, func() bool { return a.has(0) })
	c.say(&rankv1.FromRank{Body: &rankv1.FromRank_Cancel{Cancel: &rankv1.Cancel{Request: id}}})
	c.wantFailed(id, "withdrawn")
	c.leave()
	until(t, func() bool { return !a.has(0) })
	clients := joined(t, a)
	wantServed(t, clients[0].group, sum, clients...)
}
