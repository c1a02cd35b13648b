package rankv1

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/tests/hostile"
)

// TestConnDescriptorsOfTheNextMessage: a read that ends one message may bring the next one's descriptors, which must still be
// there then.
func TestConnDescriptorsOfTheNextMessage(t *testing.T) {
	a, b := conns(t)
	if err := a.Send(message(1, 10)); err != nil {
		t.Fatal(err)
	}
	if err := a.Send(message(2, 10), contents(t, "two")...); err != nil {
		t.Fatal(err)
	}
	wantMessage(t, b, message(1, 10))
	wantMessage(t, b, message(2, 10))
	wantFiles(t, b, "two")
}

// TestConnDescriptorsThatNobodyWants are closed: those beside a message that is taken by its end, and a peer that goes on
// sending some with messages that never end is cut off.
func TestConnDescriptorsThatNobodyWants(t *testing.T) {
	files := contents(t, "stray")
	a, b := conns(t)
	dir := strings.TrimSuffix(files[0].Name(), "/stray")
	before := descriptorsOf(t, dir)
	for id := uint64(1); id < 2*maxHeld; id++ {
		if err := a.Send(message(id, 10), files...); err != nil {
			t.Fatal(err)
		}
		wantMessage(t, b, message(id, 10))
		if n := descriptorsOf(t, dir) - before; n > 1 {
			t.Fatalf("%d descriptors are open after message %d", n, id)
		}
	}
	b.Drain()

	x, y := hostile.Sockets(t)
	c := NewConn(y)
	defer c.Drain()
	go func() {
		defer x.Close()
		_, _ = x.Write([]byte{255, 0, 1, 0})
		for range 4 * maxHeld {
			if _, _, err := x.WriteMsgUnix([]byte{1}, unix.UnixRights(int(files[0].Fd())), nil); err != nil {
				return // cut off
			}
		}
	}()
	if err := c.Receive(&FromRank{}); err == nil || !strings.Contains(err.Error(), "do not want them") {
		t.Errorf("got %v", err)
	}
	if n := descriptorsOf(t, dir) - before; n > maxHeld+1 {
		t.Errorf("%d descriptors are open", n)
	}
}

// FuzzDescriptors sends any bytes in pieces with descriptors beside some: the pieces' lengths and numbers of descriptors are the
// first argument. What is received must be what was sent, and no descriptor may stay open.
func FuzzDescriptors(f *testing.F) {
	two := append(frame(f, message(1, 2)), frame(f, message(2, 300))...)
	f.Add([]byte{}, []byte{})
	f.Add([]byte{3, 1, 9, 0, 200, 2}, two)
	f.Add([]byte{255, 5, 255, 5}, two)
	f.Add([]byte{1, 230, 1, 230, 1, 230, 1, 230}, two)
	f.Add([]byte{4, 1}, []byte{255, 255, 255, 255})
	null, err := os.Open("/dev/null")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, pieces, stream []byte) {
		raw, socket := hostile.Sockets(t)
		go func() {
			defer raw.Close()
			for rest := stream; len(rest) > 0; {
				n, fds := len(rest), 0
				if len(pieces) >= 2 {
					n, fds, pieces = min(max(1, int(pieces[0])), n), int(pieces[1]), pieces[2:]
				}
				var oob []byte
				if fds = min(fds, 253); fds > 0 {
					oob = unix.UnixRights(slices.Repeat([]int{int(null.Fd())}, fds)...)
				}
				sent, _, err := raw.WriteMsgUnix(rest[:n], oob, nil)
				if err != nil {
					return // the receiver has given up
				}
				rest = rest[sent:]
			}
		}()
		c := NewConn(socket)
		c.Limit(1 << 16)
		read := []byte{}
		for {
			var m FromRank
			if err := c.Receive(&m); err != nil {
				if errors.Is(err, io.EOF) && !bytes.Equal(read, stream[:len(read)]) {
					t.Errorf("read %x of %x", read, stream)
				}
				break
			}
			size := int(binary.LittleEndian.Uint32(stream[len(read):]))
			var want FromRank
			if err := proto.Unmarshal(stream[len(read)+4:len(read)+4+size], &want); err != nil || !proto.Equal(&m, &want) && !hasNaN(&m) {
				t.Errorf("received %v, want %v, %v", &m, &want, err)
			}
			read = append(read, stream[len(read):len(read)+4+size]...)
			if len(c.files) > maxHeld {
				t.Fatalf("%d descriptors are held", len(c.files))
			}
			if files, err := c.Files(int(m.Id % 3)); err == nil {
				for _, f := range files {
					_ = f.Close()
				}
			}
		}
		_ = c.Close()
		c.Drain()
		if len(c.files) != 0 {
			t.Error("descriptors stay")
		}
	})
}

// FuzzBoard reads a board of two ranks that somebody has written to at will: the agent and the peers must come to an end, and
// say something.
func FuzzBoard(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 512))
	f.Add(binary.LittleEndian.AppendUint64(nil, 1<<63))
	f.Fuzz(func(t *testing.T, data []byte) {
		const world = 2
		words := make([]uint64, BoardSize(world)/8) // aligned
		memory := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))
		b := NewBoard(memory, world)
		spread(memory[boardPage:], data)
		for rank := range world {
			begun := b.Begun(rank)
			if begun.String() == "" || begun.Bytes < 0 {
				t.Errorf("rank %d: %+v", rank, begun)
			}
			if n := len(b.Records(rank)); n > numRecords {
				t.Errorf("%d records", n)
			}
			for _, r := range b.Records(rank) {
				if r.Class.Validate() != nil && r.Class != (collective.Class{}) {
					t.Errorf("a call of no class: %+v", r)
				}
			}
			samples, now := b.Samples(rank, 0)
			if len(samples) > numSamples {
				t.Errorf("%d samples", len(samples))
			}
			if more, _ := b.Samples(rank, now); len(more) != 0 {
				t.Errorf("%d samples since the last", len(more))
			}
			for counter := range uint32(NumCounters + 2) {
				b.Counter(rank, counter)
			}
		}
		turn, fate := b.Turn()
		b.OpenTurn(turn + 1)
		if !b.SettleTurn(turn+1, Committed) {
			t.Errorf("after turn %d, fate %d, the next cannot be settled", turn, fate)
		}
	})
}

// spread writes data over all of memory, again and again with its bytes moved on, so that few bytes reach every word.
func spread(memory, data []byte) {
	if len(data) == 0 {
		return
	}
	for i := range memory {
		memory[i] = data[(i+i/boardPage)%len(data)]
	}
}
