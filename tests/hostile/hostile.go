// Package hostile is what tests share that talk over a socket as somebody who means harm, most of them fuzzed.
package hostile

import (
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Sockets are the two ends of a connected stream socket. Both are closed when the test ends.
func Sockets(t testing.TB) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		c, err := net.FileConn(f)
		_ = f.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		ends[i] = c.(*net.UnixConn)
	}
	return ends[0], ends[1]
}

// Descriptors is how many descriptors this process has open. Tests that look for forgotten ones switch the garbage
// collector off, which would close them.
func Descriptors(t testing.TB) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// Script is the input of a fuzz run, read as what is done one after the other. It ends in zeros.
type Script []byte

// Next takes one byte.
func (s *Script) Next() byte {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return b
}

// Some takes so many bytes as the next one says.
func (s *Script) Some() []byte {
	n := min(int(s.Next()), len(*s))
	b := (*s)[:n]
	*s = (*s)[n:]
	return b
}
