package agent

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/samber/lo"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/sdk/proto/rankv1"
	"github.com/weir-project/weir/sdk/proto/sealed"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/hostile"
)

// fuzzPatience is the longest that the agent of a fuzz run may take over anything; a hundred times its deadlines.
var fuzzPatience = await.For(30 * time.Second)

// library is a backend for device memory whose ranks have something to tell each other before they can run.
type library struct{ flat }

func (library) Info() backend.Info { return backend.Info{Name: "library", Kind: plan.LibraryKind} }

func (library) Plan(context.Context, backend.Request, []backend.Range) (plan.Plan, error) {
	return &plan.Library{Path: "/lib/libnccl.so", Version: "2", Variant: "nccl"}, nil
}

// duo is a job of two ranks: an honest one, which does what a rank does until it is told to end, and a hostile one.
type duo struct {
	agent   *Agent
	honest  *rankv1.Conn
	hostile *rankv1.Conn
	raw     *net.UnixConn // hostile's

	mu    sync.Mutex
	id    uint64 // of the last message to the hostile rank
	board []byte // as it has it
}

// connect gives the agent one end of a pair of sockets.
func (a *Agent) connectFuzz(t *testing.T) *net.UnixConn {
	t.Helper()
	mine, theirs := hostile.Sockets(t)
	a.wg.Go(func() { a.serve(rankv1.NewConn(mine)) })
	return theirs
}

// obey does what the agent asks a rank for until the connection ends. It asks for a class and for an exchange first.
func (d *duo) obey() {
	say := func(id uint64, done *rankv1.StepDone) {
		_ = d.honest.Send(&rankv1.FromRank{Id: id, Body: &rankv1.FromRank_StepDone{StepDone: done}})
	}
	var prepared []*rankv1.Outcome
	for {
		var m rankv1.ToRank
		if d.honest.Receive(&m) != nil {
			d.honest.Drain()
			return
		}
		switch body := m.Body.(type) {
		case *rankv1.ToRank_GroupReady:
			_ = d.honest.Send(&rankv1.FromRank{Id: 2, Body: resolve(body.GroupReady.Group, sum).Body})
			_ = d.honest.Send(&rankv1.FromRank{Id: 3, Body: exchange(body.GroupReady.Group, "x").Body})
		case *rankv1.ToRank_Prepare:
			prepared = lo.Map(body.Prepare.Instances, func(i *rankv1.Instance, _ int) *rankv1.Outcome {
				return &rankv1.Outcome{Instance: i.Id, Data: []byte("how to reach me")}
			})
			say(m.Id, &rankv1.StepDone{Outcomes: prepared})
		case *rankv1.ToRank_SelfTest, *rankv1.ToRank_Connect:
			say(m.Id, &rankv1.StepDone{Outcomes: prepared})
		case *rankv1.ToRank_Commit:
			if m.Id >= rankv1.AgentIDs {
				say(m.Id, &rankv1.StepDone{})
			}
		case *rankv1.ToRank_Gate:
			say(m.Id, &rankv1.StepDone{Begun: body.Gate.Number - 1})
		case *rankv1.ToRank_Switch:
			_ = d.honest.Send(&rankv1.FromRank{Body: &rankv1.FromRank_Switched{Switched: &rankv1.Switched{Group: body.Switch.Group, Turn: body.Switch.Turn}}})
		}
	}
}

// listen keeps what the hostile rank needs of what it is told.
func (d *duo) listen() {
	for {
		var m rankv1.ToRank
		if d.hostile.Receive(&m) != nil {
			d.hostile.Drain()
			return
		}
		d.mu.Lock()
		d.id = m.Id
		if m.GetGroupReady() != nil && d.board == nil {
			if files, err := d.hostile.Files(1); err == nil {
				d.board, _ = sealed.MapAll(files[0], unix.PROT_READ|unix.PROT_WRITE)
				_ = files[0].Close()
			}
		}
		d.mu.Unlock()
	}
}

// strays are descriptors of all sorts.
func strays(t testing.TB) []*os.File {
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.MemfdCreate("unsealed", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	memory, err := sealed.New("sealed", 4096)
	if err != nil {
		t.Fatal(err)
	}
	return []*os.File{null, folder, os.NewFile(uintptr(fd), "unsealed"), memory}
}

// act is one thing that the hostile rank does. It reports whether there is more.
func (d *duo) act(s *hostile.Script, files []*os.File) bool {
	if len(*s) == 0 {
		return false
	}
	d.mu.Lock()
	id, board := d.id, d.board
	d.mu.Unlock()
	of := func(n byte) []*os.File {
		return lo.Times(int(n)%40, func(i int) *os.File { return files[(i+int(n))%len(files)] })
	}
	switch op := s.Next(); op % 16 {
	case 0: // anything
		oob := []byte(nil)
		if with := of(s.Next()); len(with) > 0 {
			oob = unix.UnixRights(lo.Map(with, func(f *os.File, _ int) int { return int(f.Fd()) })...)
		}
		if data := s.Some(); len(data) > 0 {
			_, _, _ = d.raw.WriteMsgUnix(data, oob, nil)
		}
	case 1: // any message
		body := s.Some()
		frame := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
		_, _ = d.raw.Write(append(frame, body...))
	case 2:
		_, _ = d.raw.Write([]byte{s.Next(), s.Next(), s.Next(), s.Next()}) // a length
	case 3: // an answer to whatever was asked last
		done := &rankv1.StepDone{Begun: uint64(s.Next()), StartUnixNs: int64(s.Next()), EndUnixNs: -int64(s.Next())}
		_ = proto.UnmarshalOptions{Merge: true}.Unmarshal(s.Some(), done)
		_ = d.hostile.Send(&rankv1.FromRank{Id: id, Body: &rankv1.FromRank_StepDone{StepDone: done}}, of(s.Next())...)
	case 4: // what it should answer, or nearly
		instances := lo.Times(int(s.Next())%4, func(i int) *rankv1.Outcome {
			return &rankv1.Outcome{Instance: uint64(i + int(op>>4)), Data: s.Some(), File: s.Next()%2 == 1}
		})
		with := lo.CountBy(instances, func(o *rankv1.Outcome) bool { return o.File })
		_ = d.hostile.Send(&rankv1.FromRank{Id: id, Body: &rankv1.FromRank_StepDone{StepDone: &rankv1.StepDone{Outcomes: instances, Begun: uint64(s.Next())}}}, of(byte(with)+op>>6)...)
	case 5: // the board
		if at := int(s.Next())<<8 | int(s.Next())<<3; at < len(board) {
			copy(board[at:], s.Some())
		}
	case 6: // the agent's status is asked for
		d.agent.Status(true)
	case 7:
		time.Sleep(time.Duration(s.Next()%8) * time.Millisecond)
	case 8:
		class := collective.ClassAt(int(s.Next()) % collective.NumClasses)
		_ = d.hostile.Send(&rankv1.FromRank{Id: uint64(s.Next()), Body: &rankv1.FromRank_Resolve{Resolve: &rankv1.Resolve{
			Group: "g1", Class: pluginv1.FromClass(class), Lost: lo.Map(s.Some(), func(b byte, _ int) uint64 { return uint64(b) }),
		}}})
	case 9:
		_ = d.hostile.Send(&rankv1.FromRank{Id: uint64(s.Next()), Body: exchange("g1", string(s.Some())).Body})
	case 10:
		_ = d.hostile.Send(&rankv1.FromRank{Id: uint64(s.Next()), Body: newGroupOf(lo.Map(s.Some(), func(b byte, _ int) int32 { return int32(int8(b)) })...).Body})
	case 11:
		_ = d.hostile.Send(&rankv1.FromRank{Id: uint64(s.Next()), Body: &rankv1.FromRank_Alloc{Alloc: &rankv1.Alloc{Group: "g1", Bytes: int64(s.Next()) << (s.Next() % 64)}}})
	case 12:
		_ = d.hostile.Send([]*rankv1.FromRank{
			leaveGroup("g1"), fault("g1", string(s.Some())), join(1, 2),
			{Body: &rankv1.FromRank_Cancel{Cancel: &rankv1.Cancel{Request: uint64(s.Next())}}},
			{Body: &rankv1.FromRank_Switched{Switched: &rankv1.Switched{Group: "g1", Turn: uint64(s.Next())}}},
			{Body: &rankv1.FromRank_WorkerOverdue{WorkerOverdue: &rankv1.WorkerOverdue{Group: "g1", Instance: uint64(s.Next())}}},
			{Body: &rankv1.FromRank_FailedOver{FailedOver: &rankv1.FailedOver{Group: "g1", Call: 1, AddedNs: -1}}},
			{Body: &rankv1.FromRank_Log{Log: &rankv1.Log{Source: "\x1b[2J", Text: string(s.Some())}}},
		}[op>>4%8])
	case 13: // a wrong or right join
		j := join(int(int8(s.Next()))%4, int(s.Next())%4)
		j.Id = uint64(s.Next())
		_ = d.hostile.Send(j, of(s.Next())...)
	case 14:
		j := join(1, 2)
		j.Id = 1
		_ = d.hostile.Send(j)
	case 15: // an upgrade comes in between
		d.agent.wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), fuzzPatience/30)
			defer cancel()
			_, _ = d.agent.Upgrade(ctx, Upgrade{Plugin: "test", Candidates: d.agent.opts.Candidates, Accept: func() error { return nil }})
		})
	}
	return true
}

// FuzzRank has a rank that is the enemy join the real server over a pair of sockets, send whatever the input says, with
// descriptors of all sorts, and write to the board. The agent must answer the other rank within its deadlines, go on serving,
// and be left without a descriptor or goroutine more.
func FuzzRank(f *testing.F) {
	joinFirst := []byte{14, 7, 3}
	with := func(more ...byte) []byte { return append(slices.Clone(joinFirst), more...) }
	f.Add([]byte{})
	f.Add([]byte{2, 255, 255, 255, 255})
	f.Add([]byte{0, 39, 4, 1, 2, 3, 4, 0, 3, 1, 9})
	f.Add([]byte{13, 200, 3, 1, 0, 13, 1, 2, 1, 39})
	f.Add(with(8, 0, 1, 0, 7, 7, 4+16, 1, 0, 0, 7, 4, 4+16, 1, 0, 0, 7, 4, 9, 5, 2, 'h', 'i'))       // decides a class
	f.Add(with(8, 0, 1, 0, 7, 7, 4+16, 1, 3, 1, 2, 3, 1, 0, 7, 7, 4+16, 1, 0, 0, 7, 4, 15, 7, 7, 6)) // a file that nobody asked for
	f.Add(with(5, 16, 0, 200, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 6))                  // a board full of nonsense
	f.Add(with(3, 1, 2, 3, 0, 39, 3, 1, 2, 3, 0, 39))
	f.Add(with(11, 1, 255, 62, 11, 1, 1, 63, 10, 1, 3, 0, 1, 1, 10, 1, 1, 255, 12, 12+16, 1, 'x'))
	f.Add(with(12+16*3, 1, 0, 12+16*4, 0, 0, 0, 12+16*5, 0, 0, 1, 12+16*6, 0, 0, 0, 12+16*7, 3, 'W', 'A', 'R'))
	f.Fuzz(func(t *testing.T, input []byte) {
		files := strays(t)
		defer func() {
			for _, f := range files {
				_ = f.Close()
			}
		}()
		defer debug.SetGCPercent(debug.SetGCPercent(-1)) // which would close what is forgotten
		before := hostile.Descriptors(t)
		watchdog := time.AfterFunc(fuzzPatience, func() { panic(fmt.Sprintf("the agent hangs, or the fuzzing does; input %x", input)) })
		defer watchdog.Stop()
		a := startAgent(t, 2, func(o *Options) {
			o.JoinDeadline, o.CallDeadline, o.PrepareDeadline, o.SelfTestDeadline, o.WorkerDeadline, o.grace = fuzzDeadline, fuzzDeadline, fuzzDeadline, fuzzDeadline, fuzzDeadline, fuzzDeadline
			o.MaxShared = 1 << 20
			o.Candidates = func() []dispatch.Candidate {
				return []dispatch.Candidate{{Plugin: "test", Info: flat{}.Info(), Backend: flat{}}, {Plugin: "test", Info: library{}.Info(), Backend: library{}}}
			}
		})
		d := &duo{agent: a, honest: rankv1.NewConn(a.connectFuzz(t)), raw: a.connectFuzz(t)}
		d.hostile = rankv1.NewConn(d.raw)
		_ = d.raw.SetWriteDeadline(time.Now().Add(fuzzPatience / 2))
		var ends sync.WaitGroup
		ends.Go(d.obey)
		ends.Go(d.listen)
		j := join(0, 2)
		j.Id = 1
		if err := d.honest.Send(j); err != nil {
			t.Fatal(err)
		}
		s := (*hostile.Script)(&input)
		for n := 0; n < mostActs && d.act(s, files); n++ {
		}
		a.Status(true)
		_ = d.hostile.Close()
		a.wantAlive(t)
		_ = d.honest.Close()
		ends.Wait()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if d.board != nil {
			_ = unix.Munmap(d.board)
		}
		if !await.Poll(fuzzPatience/6, func() bool { return hostile.Descriptors(t) <= before }) {
			t.Fatalf("%d descriptors are open, %d before", hostile.Descriptors(t), before)
		}
	})
}

// mostActs keeps a run short.
const mostActs = 60

// fuzzDeadline is each of the agent's in a fuzz run, most of which pass.
var fuzzDeadline = await.Lapse(100 * time.Millisecond)

// wantAlive has a stranger get the answer that strangers get.
func (a *Agent) wantAlive(t *testing.T) {
	t.Helper()
	c := rankv1.NewConn(a.connectFuzz(t))
	defer c.Close()
	if err := c.Send(&rankv1.FromRank{Id: 5, Body: exchange("g1", "x").Body}); err != nil {
		t.Fatal(err)
	}
	var m rankv1.ToRank
	if err := c.SetReceiveDeadline(time.Now().Add(fuzzPatience / 2)); err != nil {
		t.Fatal(err)
	}
	if err := c.Receive(&m); err != nil || m.GetFailed() == nil || m.Id != 5 {
		t.Fatalf("a stranger gets %v, %v", &m, err)
	}
}

// TestDescriptorsOfTheNextMessage: two messages of a rank that the agent reads at once, the second with a descriptor.
func TestDescriptorsOfTheNextMessage(t *testing.T) {
	cuda := collective.Class{Memory: collective.CUDA, DataType: collective.Float32, Op: collective.Sum}
	a := startAgent(t, 2, func(o *Options) {
		o.Candidates = func() []dispatch.Candidate {
			return []dispatch.Candidate{{Plugin: "test", Info: library{}.Info(), Backend: library{}}}
		}
	})
	defer a.Close()
	file := strays(t)[0]
	clients := joined(t, a)
	ids := lo.Map(clients, func(c *client, _ int) uint64 { return c.say(resolve(c.group, cuda)) })
	for i, c := range clients {
		instances := c.wantPrepare(ids[i])
		for n := range 50 { // the agent is likely to find some of them in one read with what follows
			c.say(&rankv1.FromRank{Body: &rankv1.FromRank_Log{Log: &rankv1.Log{Source: "test", Text: fmt.Sprint(n)}}})
		}
		if err := c.conn.Send(&rankv1.FromRank{Id: ids[i], Body: &rankv1.FromRank_StepDone{StepDone: &rankv1.StepDone{
			Outcomes: []*rankv1.Outcome{{Instance: instances[0], Data: []byte("here"), File: true}},
		}}}, file); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range clients {
		if m := c.next(); m.GetConnect() == nil || m.Id != ids[i] || !slices.Equal(m.GetConnect().Instances[0].Files, []bool{true, true}) {
			t.Fatalf("rank %d: %v, want Connect with both descriptors", i, m)
		}
	}
}

// TestDescriptorsOfOtherSteps: a rank sends descriptors with answers that take none, and with one that comes when the step has
// failed by another's end. None stays open.
func TestDescriptorsOfOtherSteps(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // which would close them
	cuda := collective.Class{Memory: collective.CUDA, DataType: collective.Float32, Op: collective.Sum}
	file := strays(t)[0]
	withFile := func(c *client, id, instance uint64) {
		c.t.Helper()
		if err := c.conn.Send(&rankv1.FromRank{Id: id, Body: &rankv1.FromRank_StepDone{StepDone: &rankv1.StepDone{
			Outcomes: []*rankv1.Outcome{{Instance: instance, Data: []byte("here"), File: true}},
		}}}, file); err != nil {
			c.t.Fatal(err)
		}
	}
	for name, end := range map[string]bool{"all steps": false, "one ends": true} {
		t.Run(name, func(t *testing.T) {
			a := startAgent(t, 3, func(o *Options) {
				o.Candidates = func() []dispatch.Candidate {
					return []dispatch.Candidate{{Plugin: "test", Info: library{}.Info(), Backend: library{}}}
				}
			})
			defer a.Close()
			clients := joined(t, a)
			before := hostile.Descriptors(t)
			ids := lo.Map(clients, func(c *client, _ int) uint64 { return c.say(resolve(c.group, cuda)) })
			instances := lo.Map(clients, func(c *client, i int) uint64 { return c.wantPrepare(ids[i])[0] })
			if end {
				withFile(clients[0], ids[0], instances[0])
				clients[1].leave()
				withFile(clients[2], ids[2], instances[2])
				clients[0].wantFault(clients[0].group, "ended during")
				before -= 2 // both ends of its connection
			} else {
				for i, c := range clients {
					withFile(c, ids[i], instances[i])
				}
				for i, c := range clients {
					if m := c.next(); m.GetConnect() == nil {
						t.Fatalf("%v, want Connect", m)
					}
					withFile(c, ids[i], instances[i])
				}
				for i, c := range clients {
					c.wantSelfTest(ids[i])
					withFile(c, ids[i], instances[i])
				}
				for i, c := range clients {
					c.wantCommit(ids[i])
				}
			}
			until(t, func() bool { return hostile.Descriptors(t) <= before })
		})
	}
}
