// Package rankv1 is the protocol between a rank and the agent of its host: messages with file descriptors over a Unix socket, and the board they share.
package rankv1

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/sdk/proto/trust"
)

// ProtocolVersion is what Join carries; an agent refuses every other.
const ProtocolVersion = 1

// AnyRank is Join's rank of a process that takes any: rather the given one, else the lowest that is free.
func AnyRank(rather int) int { return -1 - max(rather, 0) }

const (
	maxMessage  = 128 << 20    // the plans of a class are the largest thing sent
	maxFiles    = 232          // descriptors beside one message; the kernel's own limit is 253
	maxHeld     = 2 * maxFiles // descriptors received and not taken: the read that ends a message may begin the next one
	sendTimeout = 10 * time.Second

	leastBuffer, mostBuffer = 4 << 10, 64 << 10 // bytes read at once
)

// MaxPlans is how many bytes the plans of one Prepare may have together: a message less what else is in it.
const MaxPlans = maxMessage - 1<<20

// MaxWindows is how many pieces of registered memory a group may have at a time: ranks tell each other their numbers in 16 bits.
const MaxWindows = 1 << 16

// Conn sends and receives messages. One goroutine may receive while any number send.
type Conn struct {
	socket *net.UnixConn

	sendMu      sync.Mutex
	sendTimeout time.Duration

	limit   int    // bytes of a message to be received
	held    int    // descriptors that may have been received and not taken
	pending []byte // received, not yet returned
	files   []*os.File
	buf     []byte
}

// NewConn wraps a connected stream socket.
func NewConn(socket *net.UnixConn) *Conn {
	return &Conn{socket: socket, sendTimeout: sendTimeout, limit: maxMessage, held: maxHeld, buf: make([]byte, leastBuffer)}
}

// Limit makes the largest message that Receive takes smaller: a reader allocates many times as much for one made of small
// parts. Only the receiving goroutine may call it.
func (c *Conn) Limit(bytes int) { c.limit = min(bytes, maxMessage) }

// MaxJoin is the largest message in bytes before the answer to Join: what a rank brings takes a tenth of it.
const MaxJoin = 64 << 10

// Stranger has Receive take no more than Join, and no descriptors, until the end of it is called.
func (c *Conn) Stranger() (known func()) {
	limit, held := c.limit, c.held
	c.limit, c.held = MaxJoin, 0
	return func() { c.limit, c.held = limit, held }
}

// TooLarge is that the peer wanted to send a larger message than is taken.
type TooLarge struct{ Bytes, Limit int }

func (e *TooLarge) Error() string {
	return fmt.Sprintf("message of %d bytes, at most %d", e.Bytes, e.Limit)
}

// Send writes a message and the descriptors that go with it. It gives up when the peer does not read for ten seconds. A
// message written in part is the last: the peer sees the connection end inside it, and every later Send fails.
func (c *Conn) Send(m proto.Message, files ...*os.File) error {
	body, err := proto.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	if len(body) > maxMessage || len(files) > maxFiles {
		return fmt.Errorf("message of %d bytes with %d descriptors is too large", len(body), len(files))
	}
	frame := binary.LittleEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body)))
	frame = append(frame, body...)
	var oob []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		oob = unix.UnixRights(fds...)
	}
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if err := c.socket.SetWriteDeadline(time.Now().Add(c.sendTimeout)); err != nil {
		return err
	}
	n, _, err := c.socket.WriteMsgUnix(frame, oob, nil)
	for err == nil && n < len(frame) { // the descriptors went with the first part
		var m int
		m, err = c.socket.Write(frame[n:])
		n += m
	}
	runtime.KeepAlive(files)
	if err != nil && n > 0 {
		_ = c.socket.CloseWrite() // another message would be read as the rest of this one
	}
	return err
}

// Receive reads the next message into m. io.EOF means that the peer closed the connection between two messages, whether or not
// it had read all that was sent to it. Descriptors that came with the message before and were not taken are closed.
func (c *Conn) Receive(m proto.Message) error {
	if len(c.pending) == 0 {
		c.Drain() // otherwise they may be the next message's, which has begun
	}
	for {
		if len(c.pending) >= 4 {
			size := int(binary.LittleEndian.Uint32(c.pending))
			if size > c.limit {
				return &TooLarge{size, c.limit}
			}
			if len(c.pending) >= 4+size {
				body := c.pending[4 : 4+size]
				err := proto.Unmarshal(body, m)
				c.pending = c.pending[4+size:]
				if len(c.pending) == 0 {
					c.pending = nil // let a large message's memory go
				}
				return err
			}
		}
		if err := c.fill(); err != nil {
			if errors.Is(err, io.EOF) && len(c.pending) > 0 {
				return io.ErrUnexpectedEOF
			}
			return err
		}
	}
}

// fill reads once from the socket.
func (c *Conn) fill() error {
	oob := make([]byte, unix.CmsgSpace(4*maxFiles))
	n, oobn, flags, _, err := c.socket.ReadMsgUnix(c.buf, oob)
	if oobn > 0 {
		if err := c.takeRights(oob[:oobn]); err != nil {
			return err
		}
	}
	switch {
	case errors.Is(err, unix.ECONNRESET): // it ended, or was killed, before it had read all that we sent
		return io.EOF
	case err != nil:
		return err
	case flags&unix.MSG_CTRUNC != 0:
		return fmt.Errorf("too many file descriptors beside a message, or this process may open no more")
	case n == 0:
		return io.EOF
	}
	c.pending = append(c.pending, c.buf[:n]...)
	if n == len(c.buf) && n < mostBuffer { // a peer that says little does not cost much
		c.buf = make([]byte, mostBuffer)
	}
	return nil
}

func (c *Conn) takeRights(oob []byte) error {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return fmt.Errorf("control message: %w", err)
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue // credentials and the like
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			c.files = append(c.files, os.NewFile(uintptr(fd), "weir-shared"))
		}
	}
	if n := len(c.files); n > c.held {
		return fmt.Errorf("%d file descriptors came with messages that do not want them", n)
	}
	return nil
}

// Files returns the next n descriptors received, in the order sent, for the message that Receive returned last. The caller
// closes them.
func (c *Conn) Files(n int) ([]*os.File, error) {
	if len(c.files) < n {
		return nil, fmt.Errorf("%d file descriptors came with the message, want %d", len(c.files), n)
	}
	files := c.files[:n:n]
	c.files = c.files[n:]
	return files, nil
}

// Peer is the process at the other end.
func (c *Conn) Peer() (trust.Process, error) { return trust.Peer(c.socket) }

// SetReceiveDeadline bounds the next Receive; the zero time means no bound.
func (c *Conn) SetReceiveDeadline(t time.Time) error { return c.socket.SetReadDeadline(t) }

// Close closes the connection. A blocked Receive returns.
func (c *Conn) Close() error { return c.socket.Close() }

// Drain closes the descriptors that were received and not taken. Only the receiving goroutine may call it.
func (c *Conn) Drain() {
	for _, f := range c.files {
		_ = f.Close()
	}
	c.files = nil
}
