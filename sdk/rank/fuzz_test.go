package rank

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

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule/allreduce"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/sdk/proto/rankv1"
	"github.com/weir-project/weir/sdk/proto/sealed"
	"github.com/weir-project/weir/sdk/proto/workerv1"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/hostile"
)

// fuzzPatience is the longest that a rank may take in a fuzz run, where its group's deadline is a three-hundredth of it.
var fuzzPatience = await.For(30 * time.Second)

// enemy is an agent that sends what the input says.
type enemy struct {
	raw   *net.UnixConn
	conn  *rankv1.Conn
	world int
	board []byte
	files []*os.File

	mu   sync.Mutex
	last uint64 // request of the rank
}

// listen keeps the id of what the rank asks for.
func (e *enemy) listen() {
	for {
		var m rankv1.FromRank
		if e.conn.Receive(&m) != nil {
			return
		}
		e.mu.Lock()
		if e.last = max(e.last, m.Id); m.Id >= rankv1.AgentIDs {
			e.last = 1
		}
		e.mu.Unlock()
	}
}

func (e *enemy) send(id uint64, m *rankv1.ToRank, files ...*os.File) {
	m.Id = id
	_ = e.conn.Send(m, files...)
}

// instanceOf is a plan that would run, or nearly, and the memory for it.
func (e *enemy) instanceOf(kind, id byte) (*rankv1.Instance, []*os.File) {
	var p plan.Plan = allreduce.Flat(e.world, 4096)
	i := &rankv1.Instance{Id: uint64(id), Backend: "b", Ranges: []*pluginv1.Range{{Min: 1, Max: 1 << 62}}, Memory: true, WorkerPatienceNs: int64(kind)}
	var files []*os.File
	switch kind % 4 {
	case 0:
		f, err := sealed.New("plan", p.(*plan.Schedule).MemoryBytes())
		if err == nil {
			files = []*os.File{f}
		}
	case 1:
		w := &plan.Worker{SlotBytes: 64, Slots: 2}
		made, memory, err := workerv1.Create(workerv1.ShapeOf(w, e.world))
		if err == nil {
			p, i.Inputs, files = w, true, []*os.File{made.Control, made.Inputs}
			_ = made.ReadOK.Close()
			memory.Unmap()
		}
	case 2:
		p, i.Memory = &plan.Library{Path: "/nowhere", Variant: "nccl"}, false
	case 3: // a direct schedule with memory of somebody else
		p = allreduce.Direct(e.world, 4096)
		if f, err := sealed.New("small", 4096); err == nil {
			files = []*os.File{f}
		}
	}
	i.Plan = pluginv1.FromPlan(p)
	return i, files
}

// act is one thing that the agent does.
func (e *enemy) act(s *hostile.Script) bool {
	if len(*s) == 0 {
		return false
	}
	e.mu.Lock()
	id := e.last
	e.mu.Unlock()
	op := s.Next()
	if op&0x10 != 0 {
		id = rankv1.AgentIDs + uint64(op>>5)
	}
	of := func(n byte) (some []*os.File) {
		for i := range int(n) % 5 {
			some = append(some, e.files[(i+int(n))%len(e.files)])
		}
		return some
	}
	class := pluginv1.FromClass(collective.Class{DataType: collective.Float32, Op: collective.Sum})
	switch op % 16 {
	case 0:
		fds := []int{}
		for _, f := range of(s.Next()) {
			fds = append(fds, int(f.Fd()))
		}
		if bytes := s.Some(); len(bytes) > 0 {
			_, _, _ = e.raw.WriteMsgUnix(bytes, unix.UnixRights(fds...), nil)
		}
	case 1:
		m := &rankv1.ToRank{}
		_ = proto.Unmarshal(s.Some(), m)
		e.send(id, m, of(s.Next())...)
	case 2:
		body := s.Some()
		_, _ = e.raw.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body...))
	case 3, 4:
		i, files := e.instanceOf(s.Next(), s.Next()%8)
		e.send(id, &rankv1.ToRank{Body: &rankv1.ToRank_Prepare{Prepare: &rankv1.Prepare{Instances: []*rankv1.Instance{i}}}}, files...)
		for _, f := range files {
			_ = f.Close()
		}
	case 5:
		e.send(id, &rankv1.ToRank{Body: &rankv1.ToRank_SelfTest{SelfTest: &rankv1.SelfTest{DeadlineNs: int64(s.Next()) << s.Next(), Abort: op&0x20 != 0}}})
	case 6, 7:
		commit := &rankv1.Commit{Epoch: 1}
		for range s.Next() % 4 {
			commit.Segments = append(commit.Segments, &rankv1.Segment{Max: int64(s.Next()) << (s.Next() % 64), Choices: []*rankv1.Choice{
				{Multiple: int64(int8(s.Next())), Instance: uint64(s.Next() % 8), Counter: uint32(s.Next()) << 8},
			}})
		}
		e.send(id, &rankv1.ToRank{Body: &rankv1.ToRank_Commit{Commit: commit}})
	case 8:
		e.send(id, &rankv1.ToRank{Body: &rankv1.ToRank_Discard{Discard: &rankv1.Discard{Instances: []uint64{uint64(s.Next() % 8)}}}})
	case 9:
		e.send(id, &rankv1.ToRank{Body: &rankv1.ToRank_Upgrade{Upgrade: &rankv1.Upgrade{Group: "g1", Class: class, Turn: uint64(s.Next())}}})
	case 10:
		e.send(id, &rankv1.ToRank{Body: &rankv1.ToRank_Gate{Gate: &rankv1.Gate{Group: "g1", Turn: uint64(s.Next()), Number: uint64(s.Next()) << (s.Next() % 64)}}})
	case 11:
		e.send(0, &rankv1.ToRank{Body: &rankv1.ToRank_Switch{Switch: &rankv1.Switch{Group: "g1", Turn: uint64(s.Next()), Committed: op&0x20 != 0}}})
	case 12:
		e.send(id, []*rankv1.ToRank{
			{Body: &rankv1.ToRank_Failed{Failed: &rankv1.Failed{Text: string(s.Some())}}},
			{Body: &rankv1.ToRank_Exchanged{Exchanged: &rankv1.Exchanged{Data: [][]byte{nil, s.Some()}[:s.Next()%3]}}},
			{Body: &rankv1.ToRank_GroupFault{GroupFault: &rankv1.GroupFault{Group: "g1", Text: "so it is"}}},
			{Body: &rankv1.ToRank_Connect{Connect: &rankv1.Connect{DeadlineNs: 5, Instances: []*rankv1.Peers{{Instance: uint64(s.Next() % 8), Data: [][]byte{s.Some()}, Files: []bool{false}}}}}},
		}[op>>5%4])
	case 13:
		e.send(id, &rankv1.ToRank{Body: &rankv1.ToRank_Allocated{Allocated: &rankv1.Allocated{Stride: int64(s.Next()) << (s.Next() % 64)}}}, of(1)...)
	case 14: // the board
		if at := int(s.Next())<<8 | int(s.Next())<<3; at < len(e.board) {
			copy(e.board[at:], s.Some())
		}
	case 15:
		time.Sleep(time.Duration(s.Next()%8) * time.Millisecond)
	}
	return true
}

// mostActs keeps a run short.
const mostActs = 60

// FuzzAgent has a process that only says that it is an agent answer a rank with whatever the input says, with descriptors of
// all sorts, and write to the board. The rank's calls must come to an end, wrong as their results may be, and keep nothing.
func FuzzAgent(f *testing.F) {
	wait := []byte{15, 4}
	prepare := func(kind, id byte) []byte { return append([]byte{3, kind, id}, wait...) }
	test := []byte{5, 255, 20, 15, 4}
	commit := func(id byte) []byte { return []byte{6, 1, 127, 55, 1, id, 0, 15, 7} }
	f.Add(byte(1), slices.Concat(wait, prepare(0, 1), test, commit(1), []byte{8, 1}, wait))                                                  // and discards what is in use
	f.Add(byte(1), slices.Concat(wait, prepare(1, 2), test, commit(2)))                                                                      // a worker that nobody is
	f.Add(byte(1), slices.Concat(wait, prepare(2, 3), test, commit(3)))                                                                      // a library
	f.Add(byte(1), slices.Concat(wait, prepare(3, 4), test, commit(5), prepare(0, 1), prepare(0, 1)))                                        // never prepared
	f.Add(byte(2), slices.Concat(wait, prepare(0, 1), test, commit(1), wait))                                                                // no peer
	f.Add(byte(1), slices.Concat(wait, prepare(0, 1), test, commit(1), []byte{0x1a, 77, 0, 0}, wait, wait))                                  // a gate of a turn that is not
	f.Add(byte(1), slices.Concat(wait, prepare(0, 1), test, commit(1), []byte{0x19, 1, 0x13, 0, 2, 0x15, 255, 20, 0x16, 1, 1, 62, 1, 2, 0})) // an upgrade
	f.Add(byte(1), []byte{15, 4, 13, 1, 62, 15, 4, 0x4c, 1, 0, 2, 15, 4, 0x6c, 1, 0})
	f.Add(byte(1), []byte{0, 3, 9, 255, 255, 255, 255, 1, 1, 1, 1, 1})
	f.Add(byte(3), []byte{14, 16, 0, 100, 255, 255, 255, 255, 255, 255, 255, 255, 15, 7})
	null, err := os.Open("/dev/null")
	if err != nil {
		f.Fatal(err)
	}
	memory, err := sealed.New("stray", 1<<16)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, size byte, input []byte) {
		watchdog := time.AfterFunc(fuzzPatience, func() { panic(fmt.Sprintf("the rank hangs; input %d %x", size, input)) })
		defer watchdog.Stop()
		defer debug.SetGCPercent(debug.SetGCPercent(-1)) // which would close what is forgotten
		before := hostile.Descriptors(t)
		world := 1 + int(size)%3
		file, err := sealed.New("board", rankv1.BoardSize(world))
		if err != nil {
			t.Fatal(err)
		}
		board, err := sealed.MapAll(file, unix.PROT_READ|unix.PROT_WRITE)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Munmap(board) }()
		rankv1.NewBoard(board, world)
		agentEnd, rankEnd := hostile.Sockets(t)
		e := &enemy{raw: agentEnd, conn: rankv1.NewConn(agentEnd), world: world, board: board, files: []*os.File{null, memory}}
		_ = agentEnd.SetWriteDeadline(time.Now().Add(fuzzPatience / 3))
		s := newSession(rankv1.NewConn(rankEnd), Options{WorldSize: world})
		members := make([]int32, world)
		g, err := s.open(&reply{message: &rankv1.ToRank{Body: &rankv1.ToRank_GroupReady{GroupReady: &rankv1.GroupReady{
			Group: "g1", Facts: pluginv1.FromGroup(collective.HostGroup("g1", world)), Ranks: members, DeadlineNs: int64(fuzzPatience / 300),
		}}}, files: []sharedFile{{file}}})
		if err != nil {
			t.Fatal(err)
		}
		var ends sync.WaitGroup
		ends.Go(e.listen)
		ends.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), fuzzPatience/300)
			defer cancel()
			buf := make([]float32, 3000)
			for n := range 4 {
				_ = AllReduce(g, buf[:1+n*700], buf[:1+n*700], collective.Sum)
				memory, _ := g.Alloc(ctx, 100)
				_, _ = g.Exchange(ctx, []byte("x"))
				if memory != nil {
					memory[0], memory[99] = 1, 2
					_ = AllReduceBytes(g, memory[:8], memory[8:16], collective.Float32, collective.Sum)
				}
			}
		})
		for n := 0; n < mostActs && e.act((*hostile.Script)(&input)); n++ {
		}
		time.Sleep(time.Millisecond)
		_ = e.conn.Close()
		ends.Wait()
		e.conn.Drain()
		_ = s.Close()
		if after := hostile.Descriptors(t); after > before {
			t.Errorf("%d descriptors are open, %d before", after, before)
		}
	})
}
