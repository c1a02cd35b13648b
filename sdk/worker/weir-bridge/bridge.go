package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plan"
)

const (
	pairFD  = 4 // 3 is the engine's lifeline
	maxLine = 64 << 10

	// introduction bounds how long the worker may take to say what it offers; the engine waits for as long at most.
	introduction = 10 * time.Second
	// attachTime bounds an Attach without a deadline of its own.
	attachTime = time.Minute
)

// bridge is a worker in another process as a backend.Backend.
type bridge struct {
	about about
	pair  net.Conn
	lines *bufio.Reader

	mu sync.Mutex // one question at a time
}

// connect listens to what the worker at the other end of a descriptor offers.
func connect(fd uintptr) (*bridge, error) {
	file := os.NewFile(fd, "worker")
	pair, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d is no socket of a worker, which starts this program itself: %w", fd, err)
	}
	_ = file.Close() // pair is another descriptor of it, which programs that this one starts do not get
	b := &bridge{pair: pair, lines: bufio.NewReaderSize(pair, maxLine)}
	if err := pair.SetReadDeadline(time.Now().Add(introduction)); err != nil {
		return nil, err
	}
	line, err := b.lines.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("the worker does not say what it offers: %w", err)
	}
	b.about, err = parse(line)
	return b, err
}

// Info is what the worker said.
func (b *bridge) Info() backend.Info { return b.about.Info }

// Accept says yes to what the requirements allow: a worker behind the bridge has nothing else to say.
func (b *bridge) Accept(_ context.Context, req backend.Request) (backend.Verdict, error) {
	return b.about.Info.Check(req), nil
}

// Plan says how large the slots are.
func (b *bridge) Plan(context.Context, backend.Request, []backend.Range) (plan.Plan, error) {
	p := b.about.Plan
	return &p, nil
}

// Release has nothing to end.
func (b *bridge) Release(context.Context, string) error { return nil }

// Attach tells the worker "attach GROUP SOCKET" and waits for its "ok", or a line that says why not.
func (b *bridge) Attach(ctx context.Context, group, socket string) error {
	if strings.ContainsAny(group, " \n") || strings.Contains(socket, "\n") {
		return fmt.Errorf("group %q or socket %q does not fit on a line", group, socket)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	deadline, bounded := ctx.Deadline()
	if !bounded {
		deadline = time.Now().Add(attachTime)
	}
	if err := b.pair.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(b.pair, "attach %s %s\n", group, socket); err != nil {
		return fmt.Errorf("tell the worker: %w", err)
	}
	line, err := b.lines.ReadString('\n')
	switch answer := strings.TrimSuffix(line, "\n"); {
	case err != nil:
		_ = b.pair.Close() // a late answer must not be taken for that of another question
		return fmt.Errorf("the worker does not answer: %w", err)
	case answer != "ok":
		return errors.New(strings.ToValidUTF8(answer, "\uFFFD"))
	}
	return nil
}

// Detach has nothing to tell: the service ends when the agent lets the group's memory go.
func (b *bridge) Detach(context.Context, string) error { return nil }

var (
	_ backend.Backend = (*bridge)(nil)
	_ backend.Worker  = (*bridge)(nil)
)
