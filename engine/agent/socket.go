package agent

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

// bind makes the socket, in place of one whose agent was killed.
func bind(path string) (*net.UnixListener, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if !errors.Is(err, syscall.EADDRINUSE) {
		return l, err
	}
	if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
		_ = conn.Close()
		return nil, fmt.Errorf("another agent listens at %s", path)
	} else if !errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("%s exists and is no socket of an agent that has ended: %w", path, err)
	}
	if err := os.Remove(path); err != nil {
		return nil, err
	}
	return net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
}
