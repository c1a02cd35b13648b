package rank

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// ErrClosed is wrapped by the errors of a closed session or group.
var ErrClosed = errors.New("closed")

// ErrBusy is wrapped by the errors of what a group cannot do while a call on it is in progress.
var ErrBusy = errors.New("another call is in progress")

// ErrRefused is what the errors of calls are whose arguments this rank can see to be wrong (errors.Is).
var ErrRefused = errors.New("refused")

// Session is a process's membership in a job. Its methods may be called concurrently.
type Session struct {
	conn      *rankv1.Conn
	worldSize int
	world     *Group
	gpu       *gpu // nil without a device

	mu        sync.Mutex
	lastID    uint64
	pending   map[uint64]chan *reply // requests that wait for answers
	groups    map[string]*Group
	upgrading map[uint64]*Group // by id of an upgrade's messages
	faults    map[string]string // of groups that failed before this process had opened them
	lost      error             // why the agent can no longer be asked
	done      chan struct{}     // closed when the receiving goroutine has ended
	life      context.Context   // until Close
	over      context.CancelFunc
}

// reply is a message from the agent with the files that came with it.
type reply struct {
	message *rankv1.ToRank
	files   []sharedFile
}

func newSession(conn *rankv1.Conn, opts Options) *Session {
	s := &Session{
		conn: conn, worldSize: opts.WorldSize,
		pending: map[uint64]chan *reply{}, groups: map[string]*Group{}, upgrading: map[uint64]*Group{}, faults: map[string]string{}, done: make(chan struct{}),
	}
	s.life, s.over = context.WithCancel(context.Background())
	go s.receive()
	return s
}

// World is the group of all ranks.
func (s *Session) World() *Group { return s.world }

// NewGroup makes a group of some of the ranks, named by their rank in World, in the order of the new group. Every
// member calls it with the same list; it waits until all have.
func (s *Session) NewGroup(ctx context.Context, ranks []int) (*Group, error) {
	members := make([]int32, len(ranks))
	for i, r := range ranks {
		members[i] = int32(r)
	}
	r, err := s.ask(ctx, &rankv1.FromRank{Body: &rankv1.FromRank_NewGroup{NewGroup: &rankv1.NewGroup{Ranks: members}}})
	if err != nil {
		return nil, fmt.Errorf("new group of ranks %v: %w", ranks, err)
	}
	return s.open(r)
}

// Close leaves all groups and the job. It waits for nobody. Calls on the session's groups then fail with ErrClosed.
func (s *Session) Close() error {
	var errs []error
	for _, g := range s.allGroups() {
		errs = append(errs, g.Close())
	}
	s.gpu.close()
	s.mu.Lock()
	s.lost = fmt.Errorf("the session is %w", ErrClosed)
	s.mu.Unlock()
	s.disconnect()
	return errors.Join(errs...)
}

func (s *Session) allGroups() []*Group {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.groups))
}

func (s *Session) disconnect() {
	s.over()
	_ = s.conn.Close() // nothing of ours is lost: all messages were written
	<-s.done
}

// ask sends a request and returns its one answer.
func (s *Session) ask(ctx context.Context, m *rankv1.FromRank) (*reply, error) {
	id, answers, err := s.begin(m)
	if err != nil {
		return nil, err
	}
	defer s.end(id)
	return s.answer(ctx, id, answers, nil, requestPatience)
}

// mostAnswers is more than an agent sends to a request before it waits for this rank's report: at most one of what to drop, and
// what comes next. None may be lost, or the ranks would wait for each other, so one that has no room ends the connection.
const mostAnswers = 4

// begin sends a request whose answers arrive on the channel until end.
func (s *Session) begin(m *rankv1.FromRank) (uint64, <-chan *reply, error) {
	answers := make(chan *reply, mostAnswers)
	s.mu.Lock()
	if s.lost != nil {
		s.mu.Unlock()
		return 0, nil, s.lost
	}
	s.lastID++
	id := s.lastID
	s.pending[id] = answers
	s.mu.Unlock()
	m.Id = id
	if err := s.conn.Send(m); err != nil {
		s.end(id)
		return 0, nil, fmt.Errorf("the agent does not answer: %w", err)
	}
	return id, answers, nil
}

// end drops answers that nobody waits for any more.
func (s *Session) end(id uint64) {
	s.mu.Lock()
	answers := s.pending[id]
	delete(s.pending, id)
	s.mu.Unlock()
	for { // nobody sends any more
		select {
		case r := <-answers:
			r.discard()
		default:
			return
		}
	}
}

// How long a request may go on after it was withdrawn. The agent refuses it at once unless all ranks have made it. Then
// it ends at once too, but for a decision, which ends within the agent's own deadlines.
const (
	requestPatience  = 5 * time.Second
	decisionPatience = 2 * time.Minute
)

// answer waits for the next answer to a request. When ctx ends the request is withdrawn; if it was too late for that,
// because all ranks have made it, it is carried through, so that the ranks stay in step. Once failed is closed there is no use in
// it any more.
func (s *Session) answer(ctx context.Context, id uint64, answers <-chan *reply, failed <-chan struct{}, patience time.Duration) (*reply, error) {
	select {
	case r := <-answers:
		return s.unlessFailed(r)
	case <-failed:
		return nil, errFailed
	case <-s.done:
	case <-ctx.Done():
		_ = s.conn.Send(&rankv1.FromRank{Body: &rankv1.FromRank_Cancel{Cancel: &rankv1.Cancel{Request: id}}}) // if it fails, done will tell
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case r := <-answers:
			if r, err := s.unlessFailed(r); err == nil {
				return r, nil
			}
			return nil, ctx.Err()
		case <-failed:
			return nil, errFailed
		case <-s.done:
		case <-timer.C:
			return nil, fmt.Errorf("%w, and the agent does not answer", ctx.Err())
		}
	}
	select { // it may have answered just before it ended
	case r := <-answers:
		return s.unlessFailed(r)
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return nil, s.lost
}

// errFailed ends the wait for an answer about a group that has failed, which says why.
var errFailed = errors.New("the group has failed")

// unlessFailed is the reply, or the error that it carries.
func (s *Session) unlessFailed(r *reply) (*reply, error) {
	f := r.message.GetFailed()
	switch {
	case f == nil:
		return r, nil
	case f.Group == "":
		return nil, errors.New(f.Text)
	}
	s.fault(&rankv1.GroupFault{Group: f.Group, Text: f.Text})
	return nil, &GroupError{Group: f.Group, Text: f.Text}
}

// receive hands every message to whom it is for, until the connection ends.
func (s *Session) receive() {
	defer close(s.done)
	defer s.conn.Drain()
	for {
		var m rankv1.ToRank
		err := s.conn.Receive(&m)
		var files []sharedFile
		if err == nil {
			files, err = takeFiles(s.conn, &m)
		}
		if err != nil {
			s.lose(err)
			return
		}
		if f := m.GetGroupFault(); f != nil {
			s.fault(f)
			continue
		}
		if f := m.GetFailed(); f != nil && m.Id == 0 { // the answer to what the agent did not read, and its last
			s.lose(errors.New(f.Text))
			return
		}
		r := &reply{message: &m, files: files}
		if m.Id >= rankv1.AgentIDs || m.GetSwitch() != nil {
			s.toUpgrades(r)
			continue
		}
		if !s.deliver(r) {
			r.discard()
			s.lose(fmt.Errorf("it answers request %d more often than was agreed", m.Id))
			_ = s.conn.Close() // so that it sees that this rank takes no further part
			return
		}
	}
}

// deliver passes a reply on to who waits for it, if anybody does. It is false if that has not taken those before.
func (s *Session) deliver(r *reply) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers, awaited := s.pending[r.message.Id]
	if !awaited {
		r.discard()
		return true
	}
	select {
	case answers <- r:
		return true
	default:
		return false
	}
}

// isLost reports whether the agent can no longer be asked.
func (s *Session) isLost() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// lose records that the agent cannot be asked any more. Groups go on with the plans that they have.
func (s *Session) lose(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil {
		return // it was closed
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("it has ended")
	}
	s.lost = fmt.Errorf("the agent cannot be asked: %w", err)
	go s.watchPeers()
}

func (s *Session) fault(f *rankv1.GroupFault) {
	s.mu.Lock()
	g := s.groups[f.Group]
	if g == nil && len(s.faults) < maxFaults {
		s.faults[f.Group] = f.Text
	}
	s.mu.Unlock()
	if g != nil {
		g.fail(&GroupError{Group: f.Group, Text: f.Text})
	}
}

// maxFaults bounds what is kept of groups that this process has left or not opened yet.
const maxFaults = 1000
