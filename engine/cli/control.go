package cli

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weir-project/weir/engine/agent"
)

// controlSocket is where an engine answers other commands of its user: HTTP and JSON in the run's folder, which nobody
// else may enter.
const controlSocket = "control.sock"

// controlPatience bounds one question to an engine.
const controlPatience = 10 * time.Second

// runStatus is a running engine.
type runStatus struct {
	PID     int                 `json:"pid"`
	Command string              `json:"command"`
	Version string              `json:"version"`
	Started time.Time           `json:"started"`
	Socket  string              `json:"socket"` // that ranks join at
	Plugins []pluginStatus      `json:"plugins"`
	Groups  []agent.GroupStatus `json:"groups"`
}

// pluginStatus is a plugin of a running engine.
type pluginStatus struct {
	Name     string `json:"name"`
	Version  string `json:"version,omitempty"`
	PID      int    `json:"pid,omitempty"`
	SHA256   string `json:"sha256,omitempty"`
	Restarts int    `json:"restarts,omitempty"`
	Error    string `json:"error,omitempty"`
}

// control answers until stop is called. An engine that cannot is no worse at serving ranks.
func (a *app) control(e *engine, g *agent.Agent) (stop func()) {
	l, err := net.Listen("unix", filepath.Join(e.folder.Path, controlSocket))
	if err != nil {
		e.logger.Warn("weir status cannot reach this run", "error", err)
		return func() {}
	}
	started := time.Now()
	handler := controlHandler(
		func(calls bool) runStatus { return a.runStatus(e, g, started, calls) },
		func(ctx context.Context, name, sha256 string) (reloaded, error) {
			return e.reload(ctx, g, name, sha256)
		},
	)
	server := &http.Server{Handler: handler, ReadTimeout: controlPatience, IdleTimeout: controlPatience}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // ends with Close
	}()
	return func() {
		_ = server.Close()
		<-done
	}
}

// controlHandler answers questions. What they say is in the URL; bodies are not read.
func controlHandler(status func(calls bool) runStatus, reload func(ctx context.Context, name, sha256 string) (reloaded, error)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		answer(w, status(r.URL.Query().Get("calls") != ""), nil)
	})
	mux.HandleFunc("POST /plugins/reload", func(w http.ResponseWriter, r *http.Request) {
		values := r.URL.Query()
		done, err := reload(r.Context(), values.Get("name"), values.Get("sha256"))
		answer(w, done, err)
	})
	return mux
}

func answer(w http.ResponseWriter, value any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // who asked may be gone
}

func (a *app) runStatus(e *engine, g *agent.Agent, started time.Time, calls bool) runStatus {
	s := runStatus{
		PID: os.Getpid(), Command: strings.Join(os.Args, " "), Version: Version, Started: started, Socket: g.Socket(), Groups: g.Status(calls),
	}
	for _, p := range e.host.Plugins() {
		x := pluginStatus{Name: p.Name, Version: p.Version, PID: p.PID, SHA256: p.SHA256, Restarts: p.Restarts}
		if p.Err != nil {
			x.Error = p.Err.Error()
		}
		s.Plugins = append(s.Plugins, x)
	}
	return s
}
