package p2p

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// request is what a worker is asked to do; it answers each with a reply, in order.
type request struct {
	Op       op
	Device   string        // with open: the worker's GPU; with take: the GPU whose memory it is
	Round    round         // with arm, write and check
	Patience time.Duration // with write and check: how long to wait
}

type op string

// The requests.
const (
	opOpen  op = "open"  // start CUDA on a GPU
	opOffer op = "offer" // make memory that others may map; the reply brings its descriptor
	opTake  op = "take"  // map memory of another GPU, whose descriptor comes along
	opArm   op = "arm"   // poison the memory and have a kernel wait for the round
	opWrite op = "write" // write the round into the memory taken
	opCheck op = "check" // end the wait and say what was found
	opDrop  op = "drop"  // give the memory up
)

// reply is a worker's answer.
type reply struct {
	Refused string // with take: CUDA says that this GPU cannot reach the other's memory
	Unseen  string // with take: this process does not have the other GPU
	Error   string
	Found   found
}

// maxPacket is more than any message takes.
const maxPacket = 64 << 10

// conn carries messages with at most one descriptor each, over a socket that keeps their bounds.
type conn struct{ socket *net.UnixConn }

// newPair is a conn and the other end of it, for another process.
func newPair() (conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return conn{}, nil, fmt.Errorf("socket pair: %w", err)
	}
	mine, other := os.NewFile(uintptr(fds[0]), "p2p"), os.NewFile(uintptr(fds[1]), "p2p")
	c, err := connOf(mine)
	if err != nil {
		_ = other.Close()
	}
	return c, other, err
}

// connOf takes the file over.
func connOf(f *os.File) (conn, error) {
	c, err := net.FileConn(f)
	_ = f.Close()
	if err != nil {
		return conn{}, fmt.Errorf("socket: %w", err)
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		_ = c.Close()
		return conn{}, errors.New("not a Unix socket")
	}
	return conn{u}, nil
}

func (c conn) send(message any, file *os.File) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	var oob []byte
	if file != nil {
		oob = unix.UnixRights(int(file.Fd()))
	}
	_, _, err = c.socket.WriteMsgUnix(text, oob, nil)
	runtime.KeepAlive(file)
	return err
}

// receive reads the next message; file is nil if none came with it. io.EOF means that the other end is gone.
func (c conn) receive(message any) (file *os.File, err error) {
	buf, oob := make([]byte, maxPacket), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := c.socket.ReadMsgUnix(buf, oob)
	if err != nil {
		return nil, err
	}
	if messages, err := unix.ParseSocketControlMessage(oob[:oobn]); err == nil && len(messages) == 1 {
		if fds, err := unix.ParseUnixRights(&messages[0]); err == nil && len(fds) == 1 {
			unix.CloseOnExec(fds[0])
			file = os.NewFile(uintptr(fds[0]), "gpu-memory")
		}
	}
	if n == 0 {
		return file, io.EOF
	}
	return file, json.Unmarshal(buf[:n], message)
}
