package rankv1

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/hostile"
)

func conns(t testing.TB) (a, b *Conn) {
	t.Helper()
	x, y := hostile.Sockets(t)
	return NewConn(x), NewConn(y)
}

// message is one that a test can recognise; its group has size bytes.
func message(id uint64, size int) *FromRank {
	return &FromRank{Id: id, Body: &FromRank_Leave{Leave: &Leave{Group: strings.Repeat("g", size)}}}
}

func frame(t testing.TB, m proto.Message) []byte {
	t.Helper()
	body, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func wantMessage(t testing.TB, c *Conn, want *FromRank) {
	t.Helper()
	var got FromRank
	if err := c.Receive(&got); err != nil {
		t.Fatalf("receive message %d: %s", want.Id, err)
	}
	if !proto.Equal(&got, want) {
		t.Fatalf("received message %d of %d bytes, want %d of %d", got.Id, proto.Size(&got), want.Id, proto.Size(want))
	}
}

// contents are files whose contents tell them apart.
func contents(t testing.TB, words ...string) []*os.File {
	t.Helper()
	dir := t.TempDir()
	var files []*os.File
	for _, w := range words {
		path := filepath.Join(dir, w)
		if err := os.WriteFile(path, []byte(w), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		files = append(files, f)
	}
	return files
}

// wantFiles takes as many descriptors as there are words, which must be those of contents, in order.
func wantFiles(t testing.TB, c *Conn, words ...string) {
	t.Helper()
	files, err := c.Files(len(words))
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range files {
		b := make([]byte, 64)
		n, err := f.ReadAt(b, 0) // the offset is shared with the sender's
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if got := string(b[:n]); got != words[i] {
			t.Errorf("descriptor %d is of the file %q, want %q", i, got, words[i])
		}
		if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("descriptor %d would be inherited by programs that are started: flags %d, %v", i, flags, err)
		}
		_ = f.Close()
	}
}

func TestConnDescriptorsKeepTheirOrder(t *testing.T) {
	a, b := conns(t)
	steps := [][]string{{}, {"a"}, {"b", "c", "d"}, {}, {"e"}, {"f"}, {}, {"g", "h"}}
	for i, words := range steps { // all are sent before one is received
		if err := a.Send(message(uint64(i), i*100), contents(t, words...)...); err != nil {
			t.Fatal(err)
		}
	}
	for i, words := range steps {
		wantMessage(t, b, message(uint64(i), i*100))
		wantFiles(t, b, words...)
	}
	if _, err := b.Files(1); err == nil || !strings.Contains(err.Error(), "0 file descriptors came with the message, want 1") {
		t.Errorf("one descriptor too many: %v", err)
	}
}

func TestConnMostDescriptors(t *testing.T) {
	a, b := conns(t)
	words := make([]string, maxFiles)
	for i := range words {
		words[i] = fmt.Sprintf("file%d", i)
	}
	files := contents(t, append(words, "onemore")...)
	if err := a.Send(message(1, 0), files...); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("%d descriptors: %v, want an error", len(files), err)
	}
	if err := a.Send(message(2, 1<<10), files[:maxFiles]...); err != nil {
		t.Fatal(err)
	}
	wantMessage(t, b, message(2, 1<<10))
	wantFiles(t, b, words...)
}

func TestConnCoalescedAndSplit(t *testing.T) {
	var stream []byte
	sizes := []int{0, 1, 3, 200, 70_000, 5}
	for i, size := range sizes {
		stream = append(stream, frame(t, message(uint64(i), size))...)
	}
	stream = append(stream, frame(t, &FromRank{})...) // a message of no bytes
	for name, part := range map[string]int{"in one write": len(stream), "byte by byte": 1, "7 bytes at a time": 7} {
		t.Run(name, func(t *testing.T) {
			raw, socket := hostile.Sockets(t)
			go func() {
				for rest := stream; len(rest) > 0; rest = rest[min(part, len(rest)):] {
					if _, err := raw.Write(rest[:min(part, len(rest))]); err != nil {
						t.Error(err)
						break
					}
				}
				_ = raw.Close()
			}()
			c := NewConn(socket)
			for i, size := range sizes {
				wantMessage(t, c, message(uint64(i), size))
			}
			wantMessage(t, c, &FromRank{})
			if err := c.Receive(&FromRank{}); !errors.Is(err, io.EOF) {
				t.Errorf("at the end: %v, want EOF", err)
			}
		})
	}
}

// TestConnManySenders holds that messages of several goroutines are not torn, and that each keeps its descriptor.
func TestConnManySenders(t *testing.T) {
	a, b := conns(t)
	const senders, each = 4, 30
	var words []string
	for s := range senders {
		words = append(words, fmt.Sprintf("sender%d", s))
	}
	files := contents(t, words...)
	for s := range senders {
		go func() {
			for range each {
				if err := a.Send(message(uint64(s), 3000*s*s*s*s), files[s]); err != nil { // up to more than a socket buffers
					t.Error(err)
				}
			}
		}()
	}
	for range senders * each {
		var m FromRank
		if err := b.Receive(&m); err != nil {
			t.Fatal(err)
		}
		if got, want := len(m.GetLeave().GetGroup()), 3000*int(m.Id*m.Id*m.Id*m.Id); got != want {
			t.Fatalf("message of sender %d has %d bytes, want %d", m.Id, got, want)
		}
		wantFiles(t, b, words[m.Id])
	}
}

// TestConnEndsUnread: a process that is killed before it has read what was sent to it has ended like any other.
func TestConnEndsUnread(t *testing.T) {
	raw, socket := hostile.Sockets(t)
	conn := NewConn(socket)
	if err := conn.Send(message(7, 100)); err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Write(frame(t, message(1, 100))); err != nil {
		t.Fatal(err)
	}
	_ = raw.Close()
	wantMessage(t, conn, message(1, 100))
	if err := conn.Receive(&FromRank{}); !errors.Is(err, io.EOF) {
		t.Errorf("error %v, want %v", err, io.EOF)
	}
}

func TestConnEnds(t *testing.T) {
	whole := frame(t, message(1, 100))
	for name, c := range map[string]struct {
		stream []byte
		whole  int // messages before the end
		is     error
		words  string
	}{
		"at once":               {nil, 0, io.EOF, "EOF"},
		"between messages":      {append(append([]byte{}, whole...), whole...), 2, io.EOF, "EOF"},
		"inside a length":       {whole[:3], 0, io.ErrUnexpectedEOF, "unexpected EOF"},
		"after a length":        {whole[:4], 0, io.ErrUnexpectedEOF, "unexpected EOF"},
		"inside a message":      {whole[:50], 0, io.ErrUnexpectedEOF, "unexpected EOF"},
		"inside the second":     {append(append([]byte{}, whole...), whole[:9]...), 1, io.ErrUnexpectedEOF, "unexpected EOF"},
		"a length that is huge": {[]byte{0xff, 0xff, 0xff, 0xff, 1, 2, 3}, 0, nil, "message of 4294967295 bytes, at most"},
		"a length over by one":  {binary.LittleEndian.AppendUint32(nil, maxMessage+1), 0, nil, "at most"},
		"the largest length":    {binary.LittleEndian.AppendUint32(nil, maxMessage), 0, io.ErrUnexpectedEOF, "unexpected EOF"},
		"garbage":               {[]byte{4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, 0, nil, "proto"},
	} {
		t.Run(name, func(t *testing.T) {
			raw, socket := hostile.Sockets(t)
			if _, err := raw.Write(c.stream); err != nil {
				t.Fatal(err)
			}
			_ = raw.Close()
			conn := NewConn(socket)
			for range c.whole {
				wantMessage(t, conn, message(1, 100))
			}
			err := conn.Receive(&FromRank{})
			if err == nil || !strings.Contains(err.Error(), c.words) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("error %v, want one with %q", err, c.words)
			}
			if c.is == nil && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
				t.Errorf("%v looks like the end of the connection", err)
			}
		})
	}
}

func TestConnPeerThatDoesNotRead(t *testing.T) {
	a, b := conns(t)
	a.sendTimeout = await.Lapse(20 * time.Millisecond)
	if err := a.Send(message(1, 8<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a message that nobody reads: %v, want a deadline exceeded", err)
	}
	if err := a.Send(message(2, 0)); err == nil {
		t.Error("a message went out in the middle of another")
	}
	if err := b.SetReceiveDeadline(await.By(await.Plenty)); err != nil {
		t.Fatal(err)
	}
	if err := b.Receive(&FromRank{}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the peer received %v, want an unexpected EOF", err)
	}
}

func TestConnPeerThatIsSlow(t *testing.T) {
	a, b := conns(t)
	sent := make(chan error, 1)
	go func() { sent <- a.Send(message(1, 8<<20)) }()
	wantMessage(t, b, message(1, 8<<20))
	if err := <-sent; err != nil {
		t.Error(err)
	}
	_ = b.Close()
	if err := a.Send(message(2, 0)); !errors.Is(err, unix.EPIPE) {
		t.Errorf("send to a peer that is gone: %v, want a broken pipe", err)
	}
}

func TestConnReceiveEnds(t *testing.T) {
	_, b := conns(t)
	if err := b.SetReceiveDeadline(time.Now().Add(await.Lapse(time.Millisecond))); err != nil {
		t.Fatal(err)
	}
	if err := b.Receive(&FromRank{}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("at the deadline: %v", err)
	}
	if err := b.SetReceiveDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	received := make(chan error, 1)
	go func() { received <- b.Receive(&FromRank{}) }()
	_ = b.Close()
	if err := <-received; !errors.Is(err, net.ErrClosed) {
		t.Errorf("when closed: %v", err)
	}
}

// descriptorsOf counts this process's descriptors of files below a folder.
func descriptorsOf(t testing.TB, dir string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		target, _ := os.Readlink(filepath.Join("/proc/self/fd", e.Name())) // the listing's own is gone
		if strings.HasPrefix(target, dir) {
			n++
		}
	}
	return n
}

func TestConnDrain(t *testing.T) {
	a, b := conns(t)
	files := contents(t, "a", "b", "c")
	dir := filepath.Dir(files[0].Name())
	for range 2 {
		if err := a.Send(message(1, 0), files...); err != nil {
			t.Fatal(err)
		}
		wantMessage(t, b, message(1, 0))
	}
	wantFiles(t, b, "a") // taken and closed
	if n := descriptorsOf(t, dir); n != 5 {
		t.Fatalf("%d descriptors open, want 3 of the sender's and 2 of the last message", n)
	}
	b.Drain()
	if n := descriptorsOf(t, dir); n != 3 {
		t.Errorf("%d descriptors open after Drain, want the sender's 3", n)
	}
	if _, err := b.Files(1); err == nil {
		t.Error("a drained descriptor can be taken")
	}
}

// TestConnTooManyDescriptors has a peer that does not keep to the protocol send more descriptors than fit.
func TestConnTooManyDescriptors(t *testing.T) {
	raw, socket := hostile.Sockets(t)
	f := contents(t, "a")[0]
	fds := make([]int, maxFiles+20)
	for i := range fds {
		fds[i] = int(f.Fd())
	}
	if _, _, err := raw.WriteMsgUnix(frame(t, message(1, 0)), unix.UnixRights(fds...), nil); err != nil {
		t.Fatal(err)
	}
	c := NewConn(socket)
	if err := c.Receive(&FromRank{}); err == nil || !strings.Contains(err.Error(), "too many file descriptors") {
		t.Errorf("error %v, want one about too many descriptors", err)
	}
	c.Drain()
	if n := descriptorsOf(t, filepath.Dir(f.Name())); n != 1 {
		t.Errorf("%d descriptors open after Drain, want the sender's", n)
	}
}

func TestConnPeer(t *testing.T) {
	a, _ := conns(t)
	who, err := a.Peer()
	if err != nil || int(who.UID) != os.Geteuid() || int(who.PID) != os.Getpid() || !who.Trusted() {
		t.Errorf("peer is %s, %v; want process %d of user %d", who, err, os.Getpid(), os.Geteuid())
	}
	_ = a.Close()
	if _, err := a.Peer(); err == nil {
		t.Error("a closed connection has a peer")
	}
}

// FuzzReceive feeds any bytes to Receive and compares what comes out with a reading of the whole stream at once.
func FuzzReceive(f *testing.F) {
	f.Add([]byte{}, 1)
	f.Add([]byte{1, 0}, 1)
	f.Add(frame(f, message(7, 300)), 13)
	f.Add(append(frame(f, message(1, 2)), frame(f, &FromRank{})...), 100)
	f.Add([]byte{2, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0}, 3)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, 4)
	f.Fuzz(func(t *testing.T, stream []byte, part int) {
		raw, socket := hostile.Sockets(t)
		go func() {
			defer raw.Close()
			for rest := stream; len(rest) > 0; {
				n := min(max(part, 1), len(rest))
				if _, err := raw.Write(rest[:n]); err != nil {
					return // the receiver has given up
				}
				rest = rest[n:]
			}
		}()
		c := NewConn(socket)
		defer c.Close()
		for rest := stream; ; {
			var got, want FromRank
			err := c.Receive(&got)
			switch {
			case len(rest) == 0:
				if !errors.Is(err, io.EOF) {
					t.Fatalf("at the end: %v", err)
				}
				return
			case len(rest) < 4 || binary.LittleEndian.Uint32(rest) <= maxMessage && len(rest)-4 < int(binary.LittleEndian.Uint32(rest)):
				if !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("inside a message: %v", err)
				}
				return
			case binary.LittleEndian.Uint32(rest) > maxMessage:
				if err == nil {
					t.Fatal("too long a message was received")
				}
				return
			}
			size := 4 + int(binary.LittleEndian.Uint32(rest))
			wantErr := proto.Unmarshal(rest[4:size], &want)
			if (err == nil) != (wantErr == nil) || err == nil && !proto.Equal(&got, &want) && !hasNaN(&got) {
				t.Fatalf("received %v, %v; want %v, %v", &got, err, &want, wantErr)
			}
			if err != nil {
				return // whoever receives closes the connection
			}
			rest = rest[size:]
		}
	})
}

// hasNaN reports whether a message may differ from itself.
func hasNaN(m *FromRank) bool { return !proto.Equal(m, m) }
