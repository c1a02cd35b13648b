// Package config reads Weir's configuration: built-in defaults, a YAML file, environment variables and flags, in rising precedence.
package config

import (
	"path/filepath"
	"time"

	"github.com/weir-project/weir/core/collective"
)

// Config is the effective configuration of one engine. Load makes it; treat it as read-only.
type Config struct {
	// Group is about the groups of ranks.
	Group Group `koanf:"group"`
	// Cascade says which backends are asked, and in which order.
	Cascade Cascade `koanf:"cascade"`
	// PluginDir is the folder whose executables are all loaded as plugins. The default is the folder "plugins" beside
	// the weir executable; "" means none. Absolute after Load.
	PluginDir string `koanf:"plugin_dir" is:"path"`
	// Plugins are plugins loaded by path, and what is to be known of those in PluginDir, by name. Default: none.
	Plugins map[string]Plugin `koanf:"plugins" keys:"NAME"`
	// Deadlines bound how long the engine waits for plugins and for the steps of a resolution.
	Deadlines Deadlines `koanf:"deadlines"`
	// Restart is about plugins that end by themselves.
	Restart Restart `koanf:"restart"`
	// Telemetry says where traces and metrics go. The OTEL_* variables win over it.
	Telemetry Telemetry `koanf:"telemetry"`
	// Log is about the engine's own log on standard error.
	Log Log `koanf:"log"`
	// Agent is about the socket that ranks join at.
	Agent Agent `koanf:"agent"`
	// Shared is about memory shared between ranks.
	Shared Shared `koanf:"shared"`
	// P2P is about peer-to-peer access between GPUs.
	P2P P2P `koanf:"p2p"`
}

// Group is about the groups of ranks.
type Group struct {
	// Deadline is the longest that a rank waits, in an all-reduce, for another one's next step before the group fails. Default 30s.
	Deadline time.Duration `koanf:"deadline"`
	// SlowAfter is how long the others may have waited for a rank in a call before it is reported to be slow; half of
	// Deadline at most. 0s: never. Default 1s.
	SlowAfter time.Duration `koanf:"slow_after"`
	// JoinDeadline is the longest wait until all ranks have joined, or all members of a new group have asked for it.
	// Default 1m.
	JoinDeadline time.Duration `koanf:"join_deadline"`
	// Deterministic asks for the same bits in every run: backends that do not promise them decline. Default false.
	Deterministic bool `koanf:"deterministic"`
	// ShareDevices lets several ranks use one GPU, which is for tests: it is slow. Default false.
	ShareDevices bool `koanf:"share_devices"`
	// UnabortableKernels lets kernel plans run that do not leave when their group fails. Default false.
	UnabortableKernels bool `koanf:"unabortable_kernels"`
}

// Cascade says which backends are asked, and in which order.
type Cascade struct {
	// Order names the backends to ask first, first to last; the rest follow by priority, then name. Default: none.
	Order []string `koanf:"order"`
	// Disabled names backends that are never chosen, even if Order or Fallback names them. Default: none.
	Disabled []string `koanf:"disabled"`
	// Fallback names the backend asked last, by memory kind ("host", "cuda"); "" means none. Default: nccl for cuda.
	Fallback map[string]string `koanf:"fallback" keys:"MEMORY"`
}

// FallbackFor is the name of the backend asked last for a memory kind; "" if there is none.
func (c Cascade) FallbackFor(m collective.Memory) string { return c.Fallback[m.String()] }

// Plugin is one plugin.
type Plugin struct {
	// Path is its executable. In a file it is relative to the file's folder, in a variable or flag to the working
	// directory. The default is the executable of the plugin's name in PluginDir. Absolute after Load.
	Path string `koanf:"path" is:"path"`
	// SHA256 is the checksum that the executable must have, 64 hexadecimal digits. Default "": not checked.
	SHA256 string `koanf:"sha256"`
	// TLS encrypts the connection to the plugin (AutoMTLS); switch it off for plugins that do not speak it.
	// Default true.
	TLS bool `koanf:"tls"`
	// Env is variables added to the plugin's environment, which otherwise holds only an allowed few. Default: none.
	Env map[string]string `koanf:"env" keys:"VARIABLE"`
	// Settings are handed to the plugin as they are, as JSON-like values: nil, bool, int, int64, uint64, float64,
	// string, []any, map[string]any. Default: none.
	Settings map[string]any `koanf:"settings" keys:"SETTING"`
	// Disabled keeps the plugin from being started. Default false.
	Disabled bool `koanf:"disabled"`
}

// Deadlines bound how long the engine waits. All are greater than zero.
type Deadlines struct {
	// Start is the longest that a plugin may take to start. Default 10s.
	Start time.Duration `koanf:"start"`
	// Call is the longest that one call to a plugin (Describe, Accept, Plan) may take. Default 5s.
	Call time.Duration `koanf:"call"`
	// Prepare is the longest that all ranks together may take to prepare a plan. Default 30s.
	Prepare time.Duration `koanf:"prepare"`
	// SelfTest is the longest that all ranks together may take to self-test a plan. Default 30s.
	SelfTest time.Duration `koanf:"self_test"`
	// Worker is the longest that a worker plugin may take over a part of a call that all ranks have handed to it. It is
	// killed then, and the call goes on with another backend. Default 5s.
	Worker time.Duration `koanf:"worker"`
}

// Restart is about plugins that end by themselves and are started again. All are greater than zero.
type Restart struct {
	// First is the wait before the first restart; each further one waits twice as long. Default 200ms.
	First time.Duration `koanf:"first"`
	// Longest is the longest such wait. Default 30s.
	Longest time.Duration `koanf:"longest"`
	// Stable is how long a plugin must have served to be taken to be well again. Default 1m.
	Stable time.Duration `koanf:"stable"`
	// Most is how often a plugin is started again without its having been well before it is given up. Default 5.
	Most int `koanf:"most"`
}

// Telemetry says where traces and metrics go.
type Telemetry struct {
	// Traces is the exporter of traces: "otlp", "console", or "none". Default "": none.
	Traces string `koanf:"traces"`
	// Metrics is the exporter of metrics: "otlp", "console", or "none". Default "": none.
	Metrics string `koanf:"metrics"`
	// Endpoint is the URL of the OTLP collector. Default "": OpenTelemetry's default.
	Endpoint string `koanf:"endpoint"`
	// File is where `weir run`, `weir agent` and `weir bench` append their traces, one OTLP JSON object a line, beside
	// what Traces says. Default "": nowhere. Absolute after Load.
	File string `koanf:"file" is:"path"`
	// ServiceName is the service.name that spans and metrics carry. Default "weir".
	ServiceName string `koanf:"service_name"`
}

// Log is about the engine's own log.
type Log struct {
	// Level is the least severe level that is logged: "debug", "info", "warn" or "error". Default "info".
	Level string `koanf:"level"`
	// Format is "text" or "json" (one object a line). Default "text".
	Format string `koanf:"format"`
}

// Agent is about the socket that ranks join at.
type Agent struct {
	// Socket is the path of the Unix socket. Default "": one in a folder of the run's own. Absolute after Load.
	Socket string `koanf:"socket" is:"path"`
}

// Shared is about memory shared between ranks.
type Shared struct {
	// MaxBytes is the most shared memory that one group may use. Default 4GiB.
	MaxBytes Size `koanf:"max_bytes"`
}

// P2P is about peer-to-peer access between GPUs.
type P2P struct {
	// Verify says whether access that a backend needs proved, and the driver reports, is proved when a group asks for it:
	// "auto" does it once, in throw-away processes; "off" leaves it to `weir doctor`. Default "auto".
	Verify string `koanf:"verify"`
}

// VerifyOff is the P2P.Verify that proves nothing.
const VerifyOff = "off"

// Default is the configuration when nothing is configured. exe is the path of the weir executable; with "" there is no
// plugin folder.
func Default(exe string) Config {
	c := Config{
		Group:     Group{Deadline: 30 * time.Second, SlowAfter: time.Second, JoinDeadline: time.Minute},
		Cascade:   Cascade{Fallback: map[string]string{collective.CUDA.String(): "nccl"}},
		Deadlines: Deadlines{Start: 10 * time.Second, Call: 5 * time.Second, Prepare: 30 * time.Second, SelfTest: 30 * time.Second, Worker: 5 * time.Second},
		Restart:   Restart{First: 200 * time.Millisecond, Longest: 30 * time.Second, Stable: time.Minute, Most: 5},
		Telemetry: Telemetry{ServiceName: "weir"},
		Log:       Log{Level: "info", Format: "text"},
		Shared:    Shared{MaxBytes: 4 * GiB},
		P2P:       P2P{Verify: "auto"},
	}
	if exe != "" {
		c.PluginDir = filepath.Join(filepath.Dir(exe), "plugins")
	}
	return c
}

// defaultPlugin is the entry of a plugin of which nothing is said.
func defaultPlugin() Plugin { return Plugin{TLS: true} }
