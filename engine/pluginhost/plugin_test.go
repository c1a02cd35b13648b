package pluginhost_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"testing"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
	"github.com/weir-project/weir/sdk/plugin"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
)

// The test binary is also the plugin, of as many kinds as there are modes, and the engine that is killed.
const modeEnv = "WEIR_TEST_MODE"

func TestMain(m *testing.M) {
	mode := os.Getenv(modeEnv)
	switch {
	case mode == "":
		os.Exit(m.Run())
	case mode == "engine":
		engine()
	default:
		os.Exit(pretend(mode))
	}
}

// pretend is the main of a plugin that behaves as the mode says.
func pretend(mode string) int {
	start, call, _ := strings.Cut(mode, ":")
	if f, ok := beginnings[start]; ok {
		f()
	}
	b := testBackend{name: os.Getenv("WEIR_TEST_BACKEND"), call: call}
	if b.name == "" {
		b.name = "flat"
	}
	p := plugin.Plugin{Name: b.name + "-plugin", Version: "1.2.3", Backends: []backend.Backend{b}}
	if f, ok := configures[start]; ok {
		p.Configure = f
	}
	return plugin.Serve(p)
}

// beginnings happen before Serve.
var beginnings = map[string]func(){
	"hang": func() { fmt.Fprintln(os.Stderr, "still loading"); forever() },
	"exit3": func() {
		fmt.Fprintln(os.Stderr, "libfoo.so.1 is missing")
		os.Exit(3)
	},
	"exit0":    func() { os.Exit(0) },
	"panic":    func() { panic("no device") },
	"signal":   func() { p, _ := os.FindProcess(os.Getpid()); _ = p.Kill(); forever() },
	"stdout":   func() { fmt.Println("hello, I am a plugin") },
	"version":  func() { say("1|99|unix|/tmp/x|grpc|") },
	"core":     func() { say("7|1|unix|/tmp/x|grpc|") },
	"netrpc":   func() { say("1|1|unix|/tmp/x|netrpc|") },
	"notls":    func() { say("1|1|unix|/tmp/x|grpc|") },
	"carrier":  func() { say("1|1|pigeon|home|grpc|") },
	"long":     func() { say(strings.Repeat("x", 1<<20)) },
	"foreign":  serveNothing,
	"chatty":   chatter,
	"parent":   bearChild,
	"stubborn": func() { signal.Ignore(os.Interrupt) },
	"frozen":   func() { os.Unsetenv("PLUGIN_CLIENT_CERT"); say("1|1|unix|" + deafSocket() + "|grpc|"); forever() },
}

// forever is a hang. It is not an empty select, which the runtime would end as a deadlock.
func forever() { time.Sleep(time.Hour) }

func say(line string) {
	fmt.Println(line)
	forever()
}

var configures = map[string]func(plugin.Settings) error{
	"settings": func(s plugin.Settings) error {
		var c struct {
			TileBytes int `json:"tile_bytes"`
		}
		return s.Decode(&c)
	},
	"configure-hang":  func(plugin.Settings) error { forever(); return nil },
	"configure-panic": func(plugin.Settings) error { panic("cannot configure") },
	"configure-exit":  func(plugin.Settings) error { os.Exit(4); return nil },
}

// testBackend misbehaves in one call.
type testBackend struct{ name, call string }

func (b testBackend) Info() backend.Info {
	kind := plan.ScheduleKind
	if b.call == "bad-info" {
		kind = "magic"
	}
	return backend.Info{Name: b.name, Kind: kind}
}

func (b testBackend) Accept(_ context.Context, _ backend.Request) (backend.Verdict, error) {
	switch b.call {
	case "accept-hang":
		forever()
	case "accept-late":
		time.Sleep(150 * time.Millisecond)
	case "accept-panic":
		panic("in accept")
	case "accept-exit":
		fmt.Fprintln(os.Stderr, "fatal error: out of luck")
		os.Exit(5)
	case "accept-nonsense":
		return backend.Verdict{Kind: "maybe"}, nil
	case "env":
		return backend.Declined(backend.Reason{Code: backend.Other, Rank: backend.AnyRank, Text: strings.Join(os.Environ(), "\n")}), nil
	case "log":
		slog.Info("asked", "backend", b.name)
		fmt.Println("on stdout")
	}
	return backend.Accepted(backend.AllBytes()...), nil
}

func (b testBackend) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	switch b.call {
	case "plan-hang":
		forever()
	case "plan-panic":
		panic("in plan")
	case "plan-exit":
		os.Exit(6)
	case "plan-nil":
		return nil, nil
	case "plan-worker":
		return &plan.Worker{SlotBytes: 64, Slots: 1}, nil
	case "plan-impossible":
		return &plan.Schedule{TileBytes: 1 << 50}, nil
	case "plan-large":
		return &plan.Kernel{Image: make([]byte, pluginv1.MaxAnswer)}, nil
	case "plan-error":
		return nil, errors.New("cannot plan")
	}
	shape := schedule.Shape{TileBytes: 64, Buffers: 1, Chunks: 1}
	return schedule.Build(req.Group.WorldSize(), shape, func(*schedule.Rank) {}), nil
}

func (testBackend) Release(context.Context, string) error { return nil }

// serveNothing is a go-plugin server of somebody else's.
func serveNothing() {
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig:  goplugin.HandshakeConfig{MagicCookieKey: pluginv1.MagicCookieKey, MagicCookieValue: pluginv1.MagicCookieValue},
		VersionedPlugins: map[int]goplugin.PluginSet{1: {"x": nothing{}}},
		GRPCServer:       goplugin.DefaultGRPCServer,
	})
	os.Exit(0)
}

type nothing struct {
	goplugin.NetRPCUnsupportedPlugin
}

func (nothing) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error { return nil }
func (nothing) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, nil
}

// chatter writes what has crashed or stuck readers of plugin logs.
func chatter() {
	for _, line := range []string{
		`{"@message": 1}`, `{"@message":"m","@level":null}`, `{"@message":"m","@timestamp":5}`, `{"@message":null,"@level":[]}`,
		`{}`, `{`, `null`, `[1]`, "\xff\xfe", "", `{"@level":"warn","@message":"well formed","k":"v"}`,
		strings.Repeat("y", 300<<10),
	} {
		fmt.Fprintln(os.Stderr, line)
	}
}

// bearChild starts a process that outlives its parent unless the group is killed.
func bearChild() {
	cmd := exec.Command("sleep", "300")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr // holds the pipes open
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	if err := os.WriteFile(os.Getenv("WEIR_TEST_CHILD"), []byte(fmt.Sprint(cmd.Process.Pid)), 0o600); err != nil {
		panic(err)
	}
}

// hostRequest is a question about ranks without GPUs.
func hostRequest() backend.Request {
	return backend.Request{Group: collective.HostGroup("g", 2), Class: collective.Class{}}
}
