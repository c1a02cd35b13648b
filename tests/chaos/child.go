package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"syscall"
)

// child is a process that a round has started itself.
type child struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has been waited for
	err   error         // then: how it ended
}

// start starts a command.
func (r *round) start(cmd *exec.Cmd) (*child, error) {
	r.mu.Lock() // or it could be taken for an orphan
	defer r.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, ended: make(chan struct{})}
	r.children[c.pid()] = true
	go func() {
		c.err = cmd.Wait()
		close(c.ended)
	}()
	return c, nil
}

// started reports whether a process is waited for.
func (r *round) started(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.children[pid]
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// wait returns how the process ended.
func (c *child) wait() error {
	<-c.ended
	return c.err
}

func (c *child) kill() {
	send(c.pid(), syscall.SIGKILL)
	<-c.ended
}

// says waits for a line of a transcript that the process writes to, as long as it lives.
func (c *child) says(ctx context.Context, t *transcript, pattern *regexp.Regexp) (line, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-c.ended:
			cancel(fmt.Errorf("%s has ended: %w", c.cmd.Path, c.err))
		case <-ctx.Done():
		}
	}()
	return t.await(ctx, pattern)
}
