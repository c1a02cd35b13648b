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
	// attachTime bounds an Attach whose caller is more patient: the worker may stand at a breakpoint.
	attachTime = 24 * time.Hour
)

// bridge is a worker in another process as a backend.Backend.
type bridge struct {
	about about
	pair  net.Conn
	lines chan string // that the worker says; closed when it is gone

	mu sync.Mutex // one question at a time
}

// connect listens to what the worker at the other end of a descriptor offers. ended is called when the worker is gone.
func connect(fd uintptr, ended func()) (*bridge, error) {
	file := os.NewFile(fd, "worker")
	pair, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d is no socket of a worker, which starts this program itself: %w", fd, err)
	}
	_ = file.Close() // pair is another descriptor of it, which programs that this one starts do not get
	b := &bridge{pair: pair, lines: make(chan string)}
	go b.read(ended)
	select {
	case line, ok := <-b.lines:
		if !ok {
			return nil, errors.New("the worker ended before it said what it offers, on one line")
		}
		b.about, err = parse([]byte(line))
		return b, err
	case <-time.After(introduction):
		return nil, fmt.Errorf("the worker did not say within %s what it offers", introduction)
	}
}

// read passes on what the worker says until it is gone.
func (b *bridge) read(ended func()) {
	s := bufio.NewScanner(b.pair)
	s.Buffer(nil, maxLine)
	for s.Scan() {
		b.lines <- s.Text()
	}
	close(b.lines)
	ended()
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
	ctx, cancel := context.WithTimeout(ctx, attachTime)
	defer cancel()
	deadline, _ := ctx.Deadline()
	if err := b.pair.SetWriteDeadline(deadline); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(b.pair, "attach %s %s\n", group, socket); err != nil {
		return fmt.Errorf("tell the worker: %w", err)
	}
	select {
	case answer, ok := <-b.lines:
		switch {
		case !ok:
			return errors.New("the worker is gone")
		case answer != "ok":
			return errors.New(strings.ToValidUTF8(answer, "\uFFFD"))
		}
		return nil
	case <-ctx.Done():
		_ = b.pair.Close() // a late answer must not be taken for that of another question
		return fmt.Errorf("the worker does not answer: %w", ctx.Err())
	}
}

// Detach has nothing to tell: the service ends when the agent lets the group's memory go.
func (b *bridge) Detach(context.Context, string) error { return nil }

var (
	_ backend.Backend = (*bridge)(nil)
	_ backend.Worker  = (*bridge)(nil)
)
