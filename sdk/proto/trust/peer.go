package trust

import (
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process is who is at the other end of a Unix socket: who connected, or who listened.
type Process struct {
	PID int32 // 0 if it is in a PID namespace that this process does not see
	UID uint32
}

func (p Process) String() string { return fmt.Sprintf("process %d of %s", p.PID, user(p.UID)) }

// Peer asks the kernel who is at the other end.
func Peer(socket *net.UnixConn) (Process, error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return Process{}, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return Process{}, err
	}
	if credErr != nil {
		return Process{}, credErr
	}
	return Process{PID: cred.Pid, UID: cred.Uid}, nil
}

// Trusted reports whether the process is this user's or root's, whose code may run in this process.
func (p Process) Trusted() bool {
	me := uint32(os.Geteuid())
	switch {
	case p.UID == 0:
		return true
	case p.UID != me:
		return false
	case !unmapped(me):
		return true
	}
	// Every user without a number here looks like this one. Whether it may be signalled, the kernel decides by the true numbers.
	return p.PID > 0 && syscall.Kill(int(p.PID), 0) == nil
}
