package rankv1

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/collective"
)

// boards are the agent's and a rank's view of the same memory.
func boards(t *testing.T, world int) (agent, rank *Board) {
	t.Helper()
	memory := make([]byte, BoardSize(world))
	agent = NewBoard(memory, world)
	rank, err := OpenBoard(memory, world)
	if err != nil {
		t.Fatal(err)
	}
	return agent, rank
}

func TestBoardBeginAndEnd(t *testing.T) {
	agent, rank := boards(t, 3)
	number := uint64(0)
	for index := range collective.NumClasses {
		for _, bytes := range []int64{1, 14336, 1 << 31, 1<<40 - 1} {
			number += 211 // more than 2^15 in all, so that the number's lowest bits wrap
			rank.Begin(1, number, index, bytes)
			want := Begun{Number: number, Done: agent.Begun(1).Done, Class: collective.ClassAt(index), Bytes: bytes}
			if diff := cmp.Diff(want, agent.Begun(1)); diff != "" {
				t.Fatalf("class %d, number %d: %s", index, number, diff)
			}
			rank.End(1, number)
			if got := agent.Begun(1).Done; got != number {
				t.Fatalf("ended %d, want %d", got, number)
			}
		}
	}
	if number < 1<<16 {
		t.Fatalf("only %d calls: the number's bits have not wrapped", number)
	}
	for _, peer := range []int{0, 2} {
		if got := agent.Begun(peer); got != (Begun{}) || got.String() != "no all-reduce yet" {
			t.Errorf("rank %d, which did nothing: %+v (%s)", peer, got, got)
		}
	}
}

func TestBoardLargeNumbers(t *testing.T) {
	agent, rank := boards(t, 1)
	for _, number := range []uint64{1, 1<<15 - 1, 1 << 15, 1<<15 + 1, 1 << 49, 1<<63 + 5} {
		rank.Begin(0, number, 7, 1<<50)
		want := Begun{Number: number, Class: collective.ClassAt(7), Bytes: 1<<40 - 1} // more than fits is the most that fits
		if diff := cmp.Diff(want, agent.Begun(0)); diff != "" {
			t.Errorf("number %d: %s", number, diff)
		}
	}
}

func TestBoardReject(t *testing.T) {
	agent, rank := boards(t, 2)
	rank.Begin(0, 4, 3, 100)
	rank.End(0, 4)
	rank.Reject(0, 5)
	got := agent.Begun(0)
	if !got.Rejected || got.Number != 5 || got.Done != 5 || got.Bytes != 0 {
		t.Errorf("after Reject: %+v", got)
	}
	if want := "all-reduce 5 with arguments that it refused"; got.String() != want {
		t.Errorf("%q, want %q", got, want)
	}
	rank.Begin(0, 6, 3, 100)
	if got := agent.Begun(0); got.Rejected || got.String() != "all-reduce 6 of 100 bytes, "+collective.ClassAt(3).String() {
		t.Errorf("after the next Begin: %+v (%s)", got, got)
	}
}

// TestBoardRankDiesBetweenStores leaves a rank with the number of its next call written and nothing else of it.
func TestBoardRankDiesBetweenStores(t *testing.T) {
	for _, last := range []uint64{1, 9, 1<<15 - 1, 1 << 15} {
		agent, rank := boards(t, 1)
		rank.Begin(0, last, 5, 77)
		rank.End(0, last)
		atomic.StoreUint64(rank.rank(0, offNumber), last+1)
		want := Begun{Number: last, Done: last, Class: collective.ClassAt(5), Bytes: 77}
		if diff := cmp.Diff(want, agent.Begun(0)); diff != "" {
			t.Errorf("after call %d: %s", last, diff)
		}
	}
	agent, rank := boards(t, 1)
	atomic.StoreUint64(rank.rank(0, offNumber), 1)
	if got := agent.Begun(0); got != (Begun{}) {
		t.Errorf("before the first call: %+v", got)
	}
}

// TestBoardReadWhileWritten holds that a reader never sees a mixture of two calls.
func TestBoardReadWhileWritten(t *testing.T) {
	agent, rank := boards(t, 1)
	const first, last = 1<<15 - 10_000, 1<<15 + 10_000 // across the wrap of the number's lowest bits
	rank.Begin(0, first, first%collective.NumClasses, first*8)
	go func() {
		for n := uint64(first + 1); n <= last; n++ {
			rank.Begin(0, n, int(n%collective.NumClasses), int64(n*8))
		}
	}()
	for seen := uint64(0); seen < last; {
		got := agent.Begun(0)
		if got.Number < seen {
			t.Fatalf("call %d after call %d", got.Number, seen)
		}
		seen = got.Number
		if got.Bytes != int64(seen*8) || got.Class != collective.ClassAt(int(seen%collective.NumClasses)) {
			t.Fatalf("call %d has %d bytes and class %s", seen, got.Bytes, got.Class)
		}
	}
}

func TestBoardState(t *testing.T) {
	agent, rank := boards(t, 2)
	rank.Leave(1, Left)
	if agent.Begun(1).State != Left || agent.Begun(0).State != Active {
		t.Errorf("states %d and %d, want active and left", agent.Begun(0).State, agent.Begun(1).State)
	}
	if *rank.AbortWord() != 0 {
		t.Error("aborted before Abort")
	}
	agent.Abort()
	if *rank.AbortWord() == 0 {
		t.Error("the rank does not see Abort")
	}
	if got := agent.Begun(0); got != (Begun{}) {
		t.Errorf("Abort and Leave changed another rank's part: %+v", got)
	}
}

func TestBoardCounters(t *testing.T) {
	agent, rank := boards(t, 2)
	for counter := range uint32(NumCounters + 3) { // the last three have no room of their own
		for range counter%3 + 1 {
			rank.Count(1, counter, int64(counter)+1)
		}
	}
	calls := func(counter uint32) (uint64, uint64) {
		n := uint64(counter%3 + 1)
		return n, n * (uint64(counter) + 1)
	}
	for counter := range uint32(NumCounters) {
		wantCalls, wantBytes := calls(counter)
		if counter == NumCounters-1 {
			for _, more := range []uint32{NumCounters, NumCounters + 1, NumCounters + 2} {
				c, b := calls(more)
				wantCalls, wantBytes = wantCalls+c, wantBytes+b
			}
		}
		if c, b := agent.Counter(1, counter); c != wantCalls || b != wantBytes {
			t.Errorf("counter %d: %d calls of %d bytes, want %d of %d", counter, c, b, wantCalls, wantBytes)
		}
		if c, b := agent.Counter(0, counter); c != 0 || b != 0 {
			t.Errorf("counter %d of the other rank: %d calls of %d bytes", counter, c, b)
		}
	}
	if got := agent.Begun(1); got != (Begun{}) {
		t.Errorf("counters changed what the rank has begun: %+v", got)
	}
}

func TestBoardSamples(t *testing.T) {
	agent, rank := boards(t, 2)
	take := func(from, to int) (want []Sample) {
		for i := from; i < to; i++ {
			rank.Sample(1, uint32(i%100), int64(i)*1000)
			want = append(want, Sample{uint32(i % 100), int64(i) * 1000})
		}
		return want
	}
	since := uint64(0)
	check := func(what string, want []Sample, now uint64) {
		t.Helper()
		got, n := agent.Samples(1, since)
		if diff := cmp.Diff(want, got); diff != "" || n != now {
			t.Errorf("%s: %d samples by now, want %d; %s", what, n, now, diff)
		}
		since = n
	}
	check("none", nil, 0)
	check("some", take(0, 10), 10)
	check("none new", nil, 10)
	check("as many as fit", take(10, 10+numSamples-1), 10+numSamples-1)
	all := take(1000, 1000+3*numSamples)
	check("more than fit", all[len(all)-(numSamples-1):], 10+4*numSamples-1)
	rank.Sample(1, 1<<24-1, 1<<62)
	rank.Sample(1, 3, -5)
	check("out of range", []Sample{{1<<24 - 1, 1<<40 - 1}, {3, 0}}, 10+4*numSamples+1)
	if got, n := agent.Samples(0, 0); len(got) != 0 || n != 0 {
		t.Errorf("the other rank has samples: %v", got)
	}
}

// TestBoardSamplesWhileTaken holds that a sample is read once or not at all, however fast the rank is.
func TestBoardSamplesWhileTaken(t *testing.T) {
	agent, rank := boards(t, 1)
	const last = 1_000_000
	go func() {
		for i := int64(1); i <= last; i++ {
			rank.Sample(0, uint32(i%1000), i)
		}
	}()
	since, seen := uint64(0), int64(0)
	for since < last {
		var samples []Sample
		samples, since = agent.Samples(0, since)
		for _, s := range samples {
			if s.Ns <= seen || s.Counter != uint32(s.Ns%1000) {
				t.Fatalf("sample %+v after that of %d ns", s, seen)
			}
			seen = s.Ns
		}
	}
}

func TestOpenBoardRefuses(t *testing.T) {
	laidOut := func(world int) []byte {
		return NewBoard(make([]byte, BoardSize(world)), world).Memory()
	}
	for name, memory := range map[string][]byte{
		"nothing":          nil,
		"too little":       laidOut(3)[:BoardSize(3)-1],
		"not laid out":     make([]byte, BoardSize(3)),
		"fewer ranks":      append(laidOut(2), make([]byte, boardPage)...),
		"more ranks":       laidOut(4),
		"something else":   []byte(strings.Repeat("board", 4000)),
		"a page and a bit": laidOut(3)[:boardPage+8],
	} {
		if _, err := OpenBoard(memory, 3); err == nil || !strings.Contains(err.Error(), "not one of 3 ranks") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// TestRecords: the recorder has the last calls, with what each became.
func TestRecords(t *testing.T) {
	b := NewBoard(make([]byte, BoardSize(2)), 2)
	class := collective.Class{DataType: collective.BFloat16, Op: collective.Max}
	at := time.Unix(1000, 0)
	for number := uint64(1); number <= 100; number++ {
		b.SetClock(at.Add(time.Duration(number) * time.Second))
		b.Begin(1, number, class.Index(), int64(2*number))
		b.SetClock(at.Add(time.Duration(number)*time.Second + time.Millisecond))
		if number < 100 {
			b.By(1, number, uint32(number%3))
			b.Count(1, uint32(number%3), int64(2*number))
			b.End(1, number)
		}
	}
	all := b.Records(1)
	if len(all) != 64 || all[0].Number != 37 {
		t.Fatalf("%d records from %d on", len(all), all[0].Number)
	}
	for i, r := range all {
		n := uint64(37 + i)
		start := at.Add(time.Duration(n) * time.Second)
		want := Record{Number: n, Class: class, Bytes: int64(2 * n), Start: start, End: start.Add(time.Millisecond), Ended: true, Counter: int(n % 3)}
		if n == 100 {
			want.End, want.Ended, want.Counter = time.Unix(0, 0), false, -1
		}
		if r != want {
			t.Errorf("got %+v, want %+v", r, want)
		}
	}
	b.By(1, 100, 2)
	if r, ok := b.RecordOf(1, 100); !ok || r.Counter != 2 || r.Ended {
		t.Errorf("got %+v, %t of a call that is being made by a plan, want that it names the plan's counter", r, ok)
	}
	b.Reject(1, 101)
	if all = b.Records(1); all[63].Number != 101 || !all[63].Rejected {
		t.Errorf("got %+v", all[63])
	}
	if other := b.Records(0); len(other) != 0 {
		t.Errorf("a rank without calls has records %+v", other)
	}
}

// TestWhyAGroupFailed: the first words stay, and only what has room.
func TestWhyAGroupFailed(t *testing.T) {
	b := NewBoard(make([]byte, BoardSize(2)), 2)
	if b.Why() != "" || atomic.LoadUint32(b.AbortWord()) != 0 {
		t.Fatalf("a group that has not failed has because of %q", b.Why())
	}
	b.AbortBecause("rank 1 is gone")
	b.AbortBecause("rank 0 is late")
	if b.Why() != "rank 1 is gone" || atomic.LoadUint32(b.AbortWord()) == 0 {
		t.Errorf("failed because of %q", b.Why())
	}
	b = NewBoard(make([]byte, BoardSize(2)), 2)
	b.Begin(0, 1, 0, 8)
	b.AbortBecause(strings.Repeat("é", boardPage))
	if why := b.Why(); len(why) > boardPage || len(why) < boardPage/2 || strings.Trim(why, "é") != "" {
		t.Errorf("%d bytes of %q…", len(why), why[:10])
	}
	if b.Begun(0).Number != 1 {
		t.Error("the text has run into the part of rank 0")
	}
}
