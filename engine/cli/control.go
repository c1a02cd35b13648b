package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/engine/launch"
	"github.com/weir-project/weir/sdk/proto/trust"
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

// ask sends a question to the engine of a run's folder.
func ask(ctx context.Context, patience time.Duration, folder, method, path string, values url.Values, result any) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return trust.Dial(ctx, filepath.Join(folder, controlSocket))
		},
	}}
	req, err := http.NewRequestWithContext(ctx, method, "http://weir"+path+"?"+values.Encode(), nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("the engine of %s does not answer: %w", folder, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(res.Body, 4096))
		return errors.New(cmp.Or(strings.TrimSpace(string(body)), res.Status))
	}
	return decodeAnswer(res.Body, result)
}

// maxAnswer is the longest answer of an engine: a thousand groups of eight ranks with their last calls take a tenth of it.
const maxAnswer = 1 << 30

func decodeAnswer(body io.Reader, result any) error {
	if err := json.NewDecoder(io.LimitReader(body, maxAnswer)).Decode(result); err != nil {
		return fmt.Errorf("the engine's answer: %w", err)
	}
	return nil
}

// runs are the running engines of this user, or the one whose process is named.
func (a *app) runs(ctx context.Context, pid int, calls bool) ([]runStatus, error) {
	values := url.Values{}
	if calls {
		values.Set("calls", "1")
	}
	var found []runStatus
	var errs []error
	for _, folder := range launch.Runs(a.getenv) {
		var s runStatus
		if err := ask(ctx, controlPatience, folder, http.MethodGet, "/status", values, &s); err != nil {
			errs = append(errs, err) // it may be starting, or ending
			continue
		}
		found = append(found, s)
	}
	if pid == 0 {
		return found, nil
	}
	one := lo.Filter(found, func(s runStatus, _ int) bool { return s.PID == pid })
	if len(one) == 0 {
		return nil, errors.Join(append(errs, fmt.Errorf("no engine of this user runs as process %d; weir status lists those that do", pid))...)
	}
	return one, nil
}
