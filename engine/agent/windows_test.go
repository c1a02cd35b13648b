package agent

import (
	"fmt"
	"testing"

	"github.com/weir-project/weir/sdk/proto/rankv1"
)

func alloc(group string, bytes int64) *rankv1.FromRank {
	return &rankv1.FromRank{Body: &rankv1.FromRank_Alloc{Alloc: &rankv1.Alloc{Group: group, Bytes: bytes}}}
}

func freed(group string, window uint32) *rankv1.FromRank {
	return &rankv1.FromRank{Body: &rankv1.FromRank_Free{Free: &rankv1.Free{Group: group, Window: window}}}
}

// allocated has all ranks allocate and returns the number of the memory, or what was said instead.
func allocated(t *testing.T, bytes int64, clients ...*client) string {
	t.Helper()
	for _, c := range clients {
		c.say(alloc(c.group, bytes))
	}
	got := map[string]bool{}
	for _, c := range clients {
		if m := c.next(); m.GetAllocated() != nil {
			got[fmt.Sprint(m.GetAllocated().Window)] = true
		} else {
			got[m.GetFailed().GetText()] = true
		}
	}
	if len(got) != 1 {
		t.Fatalf("the ranks are told different things: %v", got)
	}
	for text := range got {
		return text
	}
	return ""
}

// Registered memory counts until the last rank has let it go, and so does its number.
func TestRegisteredMemoryIsGivenAgain(t *testing.T) {
	a := startAgent(t, 2, func(o *Options) { o.MaxShared = 4 * 4096 })
	defer a.Close()
	c := joined(t, a)
	group := c[0].group
	full := "4096 bytes of registered memory for each of 2 ranks: the group has 0 of its 16384 bytes left (shared.max_bytes)"
	want := func(want string) {
		t.Helper()
		if got := allocated(t, 4096, c...); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	want("0")
	want("1")
	want(full)
	c[0].say(freed(group, 0))
	c[0].say(freed(group, 0)) // twice is once
	want(full)
	c[1].say(freed(group, 0))
	want("0")
	want(full)
	for _, m := range c {
		m.say(freed(group, 1))
		m.say(freed(group, 0))
	}
	want("0")
	id := c[0].say(freed(group, 7))
	c[0].wantFailed(id, "rank 0 frees registered memory 7, which group "+group+" does not have")
}
