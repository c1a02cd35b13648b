package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plain"
	"github.com/weir-project/weir/engine/loglimit"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// maxFromRank is the largest message of a rank, in bytes: an exchange, and something around it.
const maxFromRank = 4 * maxExchange

// maxFault is how many bytes a rank may say of why a group cannot go on: all ranks are told.
const maxFault = 4 << 10

// joinPatience is how long a connection may stay silent before it says who it is.
const joinPatience = 10 * time.Second

// member is a process that has connected.
type member struct {
	agent *Agent
	conn  *rankv1.Conn
	rank  int // in the job; -1 before Join
	facts collective.Rank
	job   *job
	gone  error            // why receive ended
	left  chan struct{}    // closed when the job goes on without it
	said  *loglimit.Source // what its libraries write
	known func()           // after Join: it may say more
}

// admit checks that the process belongs to the agent's user.
func (m *member) admit() error {
	who, err := m.conn.Peer()
	if err != nil {
		return fmt.Errorf("credentials of a process that connected: %w", err)
	}
	if !who.Trusted() {
		return fmt.Errorf("%s may not join the agent of user %d", who, os.Geteuid())
	}
	m.conn.Limit(maxFromRank)
	m.known = m.conn.Stranger()
	return m.conn.SetReceiveDeadline(time.Now().Add(joinPatience))
}

// receive handles messages until the connection ends.
func (m *member) receive() error {
	defer m.conn.Drain()
	for {
		var msg rankv1.FromRank
		if err := m.conn.Receive(&msg); err != nil {
			return m.ended(err)
		}
		files, err := m.takeFiles(&msg)
		if err != nil {
			return err
		}
		if err := m.handle(&msg, files); err != nil {
			m.refuse(msg.Id, err)
			if m.job == nil {
				return err // a stranger gets one try
			}
		}
	}
}

// ended is why a connection has ended; nil if the process ended it. A stranger who says too much is told so.
func (m *member) ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	if large := (*rankv1.TooLarge)(nil); m.job == nil && errors.As(err, &large) {
		err = fmt.Errorf("%w before it has joined", err)
		m.agent.opts.Logger.Warn("refused a connection", "error", err)
		m.refuse(0, err)
	}
	return err
}

// takeFiles claims the descriptors that a message announces, by instance.
func (m *member) takeFiles(msg *rankv1.FromRank) (map[uint64]*os.File, error) {
	with := lo.Filter(msg.GetStepDone().GetOutcomes(), func(o *rankv1.Outcome, _ int) bool { return o.GetFile() })
	files, err := m.conn.Files(len(with))
	if err != nil {
		return nil, err
	}
	of := make(map[uint64]*os.File, len(with))
	for i, o := range with {
		if twice := of[o.Instance]; twice != nil {
			_ = twice.Close()
		}
		of[o.Instance] = files[i]
	}
	return of, nil
}

func (m *member) handle(msg *rankv1.FromRank, files map[uint64]*os.File) error {
	if join := msg.GetJoin(); join != nil {
		return m.join(msg.Id, join)
	}
	if m.job == nil {
		closeFiles([]stepReport{{files: files}})
		return fmt.Errorf("the first message must be Join")
	}
	switch body := msg.Body.(type) {
	case *rankv1.FromRank_NewGroup:
		return m.job.newGroup(m, msg.Id, body.NewGroup.Ranks)
	case *rankv1.FromRank_Resolve:
		g, rank, err := m.job.group(m, body.Resolve.Group)
		if err != nil {
			return err
		}
		class, err := pluginv1.ToClass(body.Resolve.Class)
		if err == nil {
			err = class.Validate()
		}
		if err != nil {
			return err
		}
		return g.resolve(rank, msg.Id, class, body.Resolve.Lost)
	case *rankv1.FromRank_StepDone:
		m.job.stepDone(m, msg.Id, body.StepDone, files)
		return nil
	case *rankv1.FromRank_Exchange:
		g, rank, err := m.job.group(m, body.Exchange.Group)
		if err != nil {
			return err
		}
		return g.exchange(rank, msg.Id, body.Exchange.Data)
	case *rankv1.FromRank_Log:
		m.log(body.Log)
		return nil
	case *rankv1.FromRank_Alloc:
		g, rank, err := m.job.group(m, body.Alloc.Group)
		if err != nil {
			return err
		}
		return g.alloc(rank, msg.Id, body.Alloc.Bytes)
	case *rankv1.FromRank_Free:
		if g, rank, err := m.job.group(m, body.Free.Group); err == nil {
			return g.freeMemory(rank, body.Free.Window)
		}
		return nil
	case *rankv1.FromRank_GroupFault:
		if g, _, err := m.job.group(m, body.GroupFault.Group); err == nil { // otherwise it has left already
			g.fail(plain.Cut(plain.Line(body.GroupFault.Text), maxFault))
		}
		return nil
	case *rankv1.FromRank_WorkerOverdue:
		if g, rank, err := m.job.group(m, body.WorkerOverdue.Group); err == nil {
			g.overdue(rank, body.WorkerOverdue.Instance)
		}
		return nil
	case *rankv1.FromRank_FailedOver:
		if g, rank, err := m.job.group(m, body.FailedOver.Group); err == nil {
			return g.failedOver(rank, body.FailedOver)
		}
		return nil
	case *rankv1.FromRank_Switched:
		if g, rank, err := m.job.group(m, body.Switched.Group); err == nil {
			g.passed(rank, body.Switched.Turn)
		}
		return nil
	case *rankv1.FromRank_Cancel:
		m.job.cancel(m, body.Cancel.Request)
		return nil
	case *rankv1.FromRank_Leave:
		if g, rank, err := m.job.group(m, body.Leave.Group); err == nil {
			g.left(rank, rankv1.Left, fmt.Sprintf("rank %d has left the group", rank))
		}
		return nil
	}
	return fmt.Errorf("unknown message")
}

// log passes on what a library wrote in the rank's process.
func (m *member) log(l *rankv1.Log) {
	level := slog.LevelInfo
	if strings.Contains(l.Text, "WARN") || strings.Contains(l.Text, "ERROR") {
		level = slog.LevelWarn
	}
	m.said.Log(context.Background(), level, "message of a library", "source", l.Source, "rank", m.rank, "text", l.Text)
}

func (m *member) join(id uint64, j *rankv1.Join) error {
	if m.job != nil {
		return fmt.Errorf("this process has joined already")
	}
	if j.Version != rankv1.ProtocolVersion {
		return fmt.Errorf("the program speaks version %d of the rank protocol and this agent version %d; build both from one release", j.Version, rankv1.ProtocolVersion)
	}
	facts, err := pluginv1.ToRank(j.Facts)
	if err != nil {
		return fmt.Errorf("facts: %w", err)
	}
	m.facts = facts
	if err := m.agent.jobFor(int(j.Rank)).join(m, id, int(j.Rank), int(j.WorldSize)); err != nil {
		return err
	}
	m.known()
	return m.conn.SetReceiveDeadline(time.Time{})
}

// refuse answers a request with an error; 0 is what cannot be read. A process that is gone needs no answer.
func (m *member) refuse(id uint64, err error) {
	failed := &rankv1.Failed{Text: err.Error()}
	if dead := (*deadGroup)(nil); errors.As(err, &dead) {
		failed.Group, failed.Text = dead.group, dead.text
	}
	_ = m.conn.Send(&rankv1.ToRank{Id: id, Body: &rankv1.ToRank_Failed{Failed: failed}})
}
