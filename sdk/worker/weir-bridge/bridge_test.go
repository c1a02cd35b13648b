package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/sdk/backendtest"
	sdkworker "github.com/weir-project/weir/sdk/worker"
	"github.com/weir-project/weir/tests/await"
)

const offered = `{"version": "1.0", "slot_bytes": 4096, "slots": 2, "backend": {"name": "c", "description": "adds", "requirements": {"memories": ["host"], "scope": "one_host"}}}`

func TestParse(t *testing.T) {
	a, err := parse([]byte(offered))
	if err != nil || a.Name != "c" || a.Version != "1.0" || a.Info.Kind != "worker" || a.Plan.SlotBytes != 4096 || len(a.Info.Requirements.Memories) != 1 {
		t.Errorf("%+v, %v", a, err)
	}
	for line, want := range map[string]string{
		`hello`:                          "what the worker offers is not right",
		`{}`:                             `it has no "backend"`,
		`{"slot_byte": 1}`:               `unknown field "slot_byte"`,
		`{"backend": {"nmae": "c"}}`:     `unknown field "nmae"`,
		`{"backend": {"name": "A cat"}}`: "use lower-case letters",
		`{"backend": {"name": "c"}}`:     "0 slots of 0 bytes: want 1 to 8 slots of a multiple of 64 bytes",
		`{"backend": {"name": "c", "requirements": {"memories": ["tape"]}}, "slots": 1, "slot_bytes": 64}`: "tape",
	} {
		if _, err := parse([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

// worker is the other end of a bridge: it has said what it offers.
func worker(t *testing.T) (*bridge, net.Conn, *bufio.Reader) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fds[1]), "bridge")
	end, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	t.Cleanup(func() { _ = end.Close() })
	if _, err := fmt.Fprintln(end, offered); err != nil {
		t.Fatal(err)
	}
	left := make(chan struct{})
	b, err := connect(uintptr(fds[0]), func() { close(left) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = end.Close()
		await.Receive(t, "the bridge ends with its worker", left)
	})
	return b, end, bufio.NewReader(end)
}

// TestBackend has a worker at the other end that does its work.
func TestBackend(t *testing.T) {
	b, end, lines := worker(t)
	go func() {
		server := sdkworker.Server{Do: sdkworker.Reduce}
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			f := strings.SplitN(strings.TrimSpace(line), " ", 3)
			answer := "ok"
			if err := server.Attach(context.Background(), f[1], f[2]); err != nil {
				answer = err.Error()
			}
			_, _ = fmt.Fprintln(end, answer)
		}
	}()
	backendtest.Run(t, b)
}

func TestAttach(t *testing.T) {
	b, end, lines := worker(t)
	answer := func(text string) chan string {
		asked := make(chan string, 1)
		go func() {
			line, _ := lines.ReadString('\n')
			_, _ = fmt.Fprint(end, text)
			asked <- line
		}()
		return asked
	}
	asked := answer("ok\n")
	if err := b.Attach(t.Context(), "g1", "/run/w 1"); err != nil || <-asked != "attach g1 /run/w 1\n" {
		t.Errorf("attach: %v", err)
	}
	asked = answer("no memory\n")
	if err := b.Attach(t.Context(), "g2", "/run/w"); err == nil || err.Error() != "no memory" || <-asked != "attach g2 /run/w\n" {
		t.Errorf("a worker that refuses: %v", err)
	}
	if err := b.Attach(t.Context(), "g 3", "/run/w"); err == nil || !strings.Contains(err.Error(), "does not fit on a line") {
		t.Errorf("a group of two words: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), await.Lapse(50*time.Millisecond))
	defer cancel()
	if err := b.Attach(ctx, "g4", "/run/w"); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("a worker that hangs: %v", err)
	}
	if err := b.Attach(t.Context(), "g5", "/run/w"); err == nil {
		t.Error("a worker whose last answer may still come was asked again")
	}
}

// TestNobody: a person starts the bridge.
func TestNobody(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connect(uintptr(fd), func() {}); err == nil || !strings.Contains(err.Error(), "is no socket of a worker, which starts this program itself") {
		t.Errorf("%v", err)
	}
}

// TestDocumentedOffer: what docs/authors/languages.md says that a worker offers is understood.
func TestDocumentedOffer(t *testing.T) {
	text, err := os.ReadFile("../../../docs/authors/languages.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(text, -1)
	for _, b := range blocks {
		if a, err := parse(b[1]); err != nil || a.Info.Description == "" {
			t.Errorf("%s: %+v, %v", b[1], a, err)
		}
	}
	if len(blocks) == 0 {
		t.Error("there is no example")
	}
}
