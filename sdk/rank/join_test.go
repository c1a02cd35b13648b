package rank

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/sdk/proto/rankv1"
	"github.com/weir-project/weir/tests/await"
)

// fakeAgent listens as an agent does and hands each connection to serve, which may not keep to the protocol.
func fakeAgent(t *testing.T, serve func(*rankv1.Conn)) Options {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "wr") // a short path, for the socket
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "agent.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			socket, err := l.AcceptUnix()
			if err != nil {
				return
			}
			conn := rankv1.NewConn(socket)
			serve(conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
		_ = os.RemoveAll(dir)
	})
	return Options{Socket: path, Rank: 1, WorldSize: 2}
}

// noLeaks checks at the test's end, after all cleanup that comes later, that no goroutine is left.
func noLeaks(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// board is memory for a group's board. It is a memfd with the seals.
func board(t *testing.T, size int64, seals int) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("board", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "board")
	t.Cleanup(func() { _ = f.Close() })
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	if size >= rankv1.BoardSize(2) {
		memory, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		rankv1.NewBoard(memory, 2)
		if err := unix.Munmap(memory); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		t.Fatal(err)
	}
	return f
}

const bothSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW

// ready is what an agent says when a group of two has formed.
func ready(change func(*rankv1.GroupReady)) *rankv1.ToRank {
	g := &rankv1.GroupReady{
		Group: "g1", Rank: 1, Facts: pluginv1.FromGroup(collective.HostGroup("g1", 2)), Ranks: []int32{0, 1}, DeadlineNs: int64(await.For(time.Second)),
	}
	if change != nil {
		change(g)
	}
	return &rankv1.ToRank{Id: 1, Body: &rankv1.ToRank_GroupReady{GroupReady: g}}
}

// answerJoin answers Join and keeps the connection until the rank ends it.
func answerJoin(t *testing.T, answer *rankv1.ToRank, files ...*os.File) func(*rankv1.Conn) {
	return func(c *rankv1.Conn) {
		var m rankv1.FromRank
		if err := c.Receive(&m); err != nil || m.GetJoin() == nil {
			t.Errorf("first message %v, %v; want Join", &m, err)
			return
		}
		if answer != nil {
			if err := c.Send(answer, files...); err != nil {
				t.Error(err)
			}
		}
		for c.Receive(&m) == nil { // until the rank has gone
			if m.GetCancel() != nil {
				refused := &rankv1.ToRank_Failed{Failed: &rankv1.Failed{Text: "withdrawn"}}
				if err := c.Send(&rankv1.ToRank{Id: m.GetCancel().Request, Body: refused}); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

func TestJoinAnswers(t *testing.T) {
	good := board(t, rankv1.BoardSize(2), bothSeals)
	for name, c := range map[string]struct {
		answer *rankv1.ToRank
		files  []*os.File
		words  string // "": it goes well
	}{
		"good":               {ready(nil), []*os.File{good}, ""},
		"refused":            {&rankv1.ToRank{Id: 1, Body: &rankv1.ToRank_Failed{Failed: &rankv1.Failed{Text: "no room"}}}, nil, "join as rank 1 of 2: no room"},
		"no board":           {ready(nil), nil, "0 file descriptors came with the message, want 1"},
		"something else":     {&rankv1.ToRank{Id: 1, Body: &rankv1.ToRank_Exchanged{}}, nil, "something else than a group"},
		"no body":            {&rankv1.ToRank{Id: 1}, nil, "something else than a group"},
		"no facts":           {ready(func(g *rankv1.GroupReady) { g.Facts = nil }), []*os.File{good}, "facts of the group"},
		"a rank too high":    {ready(func(g *rankv1.GroupReady) { g.Rank = 2 }), []*os.File{good}, "inconsistent"},
		"a negative rank":    {ready(func(g *rankv1.GroupReady) { g.Rank = -1 }), []*os.File{good}, "inconsistent"},
		"members missing":    {ready(func(g *rankv1.GroupReady) { g.Ranks = []int32{0} }), []*os.File{good}, "inconsistent"},
		"board not sealed":   {ready(nil), []*os.File{board(t, rankv1.BoardSize(2), 0)}, "not sealed"},
		"board may grow":     {ready(nil), []*os.File{board(t, rankv1.BoardSize(2), unix.F_SEAL_SHRINK)}, "not sealed"},
		"board too small":    {ready(nil), []*os.File{board(t, rankv1.BoardSize(1), bothSeals)}, "shared memory of 12288 bytes, want 20480"},
		"board of something": {ready(nil), []*os.File{os.Stderr}, "shared memory"},
		"board of another size": {
			ready(func(g *rankv1.GroupReady) {
				g.Facts, g.Ranks = pluginv1.FromGroup(collective.HostGroup("g1", 3)), []int32{0, 1, 2}
			}),
			[]*os.File{board(t, rankv1.BoardSize(3), bothSeals)},
			"inconsistent",
		},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			opts := fakeAgent(t, answerJoin(t, c.answer, c.files...))
			s, err := Join(t.Context(), opts)
			if c.words == "" {
				if err != nil {
					t.Fatal(err)
				}
				if s.World().Rank() != 1 || s.World().Size() != 2 {
					t.Errorf("rank %d of %d", s.World().Rank(), s.World().Size())
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			} else if err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("error %v, want one with %q", err, c.words)
			}
		})
	}
}

func TestJoinAgentThatEnds(t *testing.T) {
	noLeaks(t)
	opts := fakeAgent(t, func(c *rankv1.Conn) { _ = c.Receive(&rankv1.FromRank{}) })
	if _, err := Join(t.Context(), opts); err == nil || !strings.Contains(err.Error(), "the agent cannot be asked: it has ended") {
		t.Errorf("error %v", err)
	}
}

// TestJoinGivesUp joins an agent whose other ranks do not come.
func TestJoinGivesUp(t *testing.T) {
	noLeaks(t)
	ctx, cancel := context.WithTimeout(t.Context(), await.Lapse(20*time.Millisecond))
	defer cancel()
	if _, err := Join(ctx, fakeAgent(t, answerJoin(t, nil))); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// TestSessionUnexpectedMessages sends a rank what it did not ask for; it goes on, and keeps no descriptor of it.
func TestSessionUnexpectedMessages(t *testing.T) {
	noLeaks(t)
	good, extra := board(t, rankv1.BoardSize(2), bothSeals), board(t, 4096, bothSeals)
	stray := []struct {
		m     *rankv1.ToRank
		files []*os.File
	}{
		{&rankv1.ToRank{Id: 77, Body: &rankv1.ToRank_Commit{}}, nil},
		{&rankv1.ToRank{}, nil},
		{ready(nil), []*os.File{extra}}, // the request has been answered
		{&rankv1.ToRank{Id: 78, Body: &rankv1.ToRank_Prepare{Prepare: &rankv1.Prepare{Instances: []*rankv1.Instance{{Memory: true}, {}, {Memory: true}}}}}, []*os.File{extra, extra}},
		{&rankv1.ToRank{Body: &rankv1.ToRank_GroupFault{GroupFault: &rankv1.GroupFault{Group: "g99", Text: "not ours"}}}, nil},
	}
	opts := fakeAgent(t, func(c *rankv1.Conn) {
		var m rankv1.FromRank
		_ = c.Receive(&m)
		if err := c.Send(ready(nil), good); err != nil {
			t.Error(err)
		}
		if err := c.Receive(&m); err != nil || m.GetExchange() == nil {
			t.Errorf("message %v, %v; want Exchange", &m, err)
			return
		}
		for _, s := range stray {
			if err := c.Send(s.m, s.files...); err != nil {
				t.Error(err)
			}
		}
		all := [][]byte{[]byte("a"), m.GetExchange().Data}
		_ = c.Send(&rankv1.ToRank{Id: m.Id, Body: &rankv1.ToRank_Exchanged{Exchanged: &rankv1.Exchanged{Data: all}}})
		for c.Receive(&m) == nil { // until the rank has gone
		}
	})
	s, err := Join(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	before := memfds(t)
	got, err := s.World().Exchange(t.Context(), []byte("b"))
	if diff := cmp.Diff([][]byte{[]byte("a"), []byte("b")}, got); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
	if after := memfds(t); after != before {
		t.Errorf("%d descriptors of shared memory, %d before", after, before)
	}
	if err := s.World().Err(); err != nil {
		t.Errorf("the group is dead: %s", err)
	}
}

// memfds counts this process's descriptors of shared memory.
func memfds(t *testing.T) int {
	t.Helper()
	all, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, fd := range all {
		if target, _ := os.Readlink(fd); strings.HasPrefix(target, "/memfd:board") {
			n++
		}
	}
	return n
}

func TestOptionsComplete(t *testing.T) {
	for name, c := range map[string]struct {
		opts  Options
		env   map[string]string
		want  Options
		words string
	}{
		"all given":         {opts: Options{"/s", 1, 2, ""}, env: map[string]string{EnvSocket: "/x", EnvRank: "5", EnvWorldSize: "6"}, want: Options{"/s", 1, 2, ""}},
		"all from there":    {env: map[string]string{EnvSocket: "/x", EnvRank: "5", EnvWorldSize: "6"}, want: Options{"/x", 5, 6, ""}},
		"socket from there": {opts: Options{"", 1, 2, ""}, env: map[string]string{EnvSocket: "/x"}, want: Options{"/x", 1, 2, ""}},
		"rest from there":   {opts: Options{"/s", 0, 0, ""}, env: map[string]string{EnvRank: "5", EnvWorldSize: "6"}, want: Options{"/s", 5, 6, ""}},
		"nothing":           {words: EnvSocket + " is not set; start the program with `weir run"},
		"no rank":           {env: map[string]string{EnvSocket: "/x", EnvWorldSize: "6"}, words: EnvRank + `="" is not a number`},
		"no number":         {env: map[string]string{EnvSocket: "/x", EnvRank: "1", EnvWorldSize: "two"}, words: EnvWorldSize + `="two" is not a number`},
		"too high":          {env: map[string]string{EnvSocket: "/x", EnvRank: "2", EnvWorldSize: "2"}, words: "rank 2 of 2 does not exist"},
		"negative":          {env: map[string]string{EnvSocket: "/x", EnvRank: "-1", EnvWorldSize: "2"}, words: "rank -1 of 2 does not exist"},
		"any":               {opts: Options{"/s", AnyRank(1), 2, "0"}, want: Options{"/s", -2, 2, "0"}},
		"any with auto":     {opts: Options{"/s", AnyRank(0), 2, DeviceAuto}, words: "name the device"},
		"no ranks":          {env: map[string]string{EnvSocket: "/x", EnvRank: "0", EnvWorldSize: "0"}, words: "rank 0 of 0 does not exist"},
	} {
		got := c.opts
		err := got.complete(func(name string) string { return c.env[name] })
		if c.words == "" && (err != nil || got != c.want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
		if c.words != "" && (err == nil || !strings.Contains(err.Error(), c.words)) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.words)
		}
	}
}
