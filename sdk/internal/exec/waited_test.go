package exec

import (
	"bytes"
	"testing"
	"time"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/tests/await"
)

func TestWaited(t *testing.T) {
	start := time.Now()
	var w Waited
	for _, look := range []struct{ at, want time.Duration }{
		{0, 0},
		{time.Millisecond, time.Millisecond},
		{time.Second, time.Second},
		{time.Hour, 2 * time.Second}, // it was stopped
		{time.Hour + time.Second, 3 * time.Second},
	} {
		if got := w.Until(start.Add(look.at)); got != look.want {
			t.Errorf("%s after the first look: %s, want %s", look.at, got, look.want)
		}
	}
}

// TestDeadlineOfASlowCall has a peer take its time for every tile of a call: the call takes longer than the deadline, no tile does.
func TestDeadlineOfASlowCall(t *testing.T) {
	const tiles, tile = 8, 64
	deadline := await.For(500 * time.Millisecond)
	step := deadline / 6 // so eight of them are longer than the deadline
	g := newTeam(t, flat(2, tile), Watch{Deadline: deadline})
	c := class(collective.Int8, collective.Sum)
	out := aligned(tiles * tile)
	src := aligned(tiles * tile)
	fill(src, []byte{1})
	ended, start := make(chan error, 1), time.Now()
	go func() { ended <- g.ranks[0].Run(callOf(c, out, src)) }()

	peer, own, mine := g.ranks[1], callOf(c, aligned(tiles*tile), src), int64(tile)
	peer.become(c)
	peer.in, peer.out, peer.bytes, peer.tag = own.Src, own.Dst, own.Bytes, tagOf(peer.index, own.Bytes, own.Number)
	peer.first, peer.tiles = peer.next, tiles
	programs := peer.programs
	if own.Bytes <= smallBytes {
		programs = peer.small
	}
	for i := range int64(tiles) { // as run does it
		time.Sleep(step) // the peer's work, which is what is tested
		if err := peer.runTile(programs[peer.next%uint64(len(programs))], i*mine, mine); err != nil {
			t.Fatal(err)
		}
		peer.next++
	}
	if err := <-ended; err != nil || !bytes.Equal(out, bytes.Repeat([]byte{2}, len(out))) {
		t.Errorf("%v after %s, %v", err, time.Since(start), out[:8])
	}
}
