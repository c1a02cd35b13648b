package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// defect is something that is wrong on purpose in every round, so that chaos must find it: these are its arguments to the ranks' program.
type defect func(*round) []string

// args are the defect's arguments to the ranks' program; none without a defect.
func (d defect) args(r *round) []string {
	if d == nil {
		return nil
	}
	return d(r)
}

// leak is the defect that is not the ranks' but the agent's.
const leak = "descriptor"

var defects = map[string]defect{
	"wrong sum":    func(r *round) []string { return []string{at("wrong", r, 20)} },
	"lost call":    func(r *round) []string { return []string{at("lost", r, 20)} },
	"doubled call": func(r *round) []string { return []string{at("double", r, 20)} },
	"process":      func(r *round) []string { return []string{"-leave", r.bin + "/programs/idle"} },
	leak:           func(*round) []string { return nil },
}

// grow has the agent, after the first job of a round of jobs, hold one descriptor that nobody needs until stop is called: of a connection
// by which somebody goes on to ask for its status.
func (r *round) grow() (stop func()) {
	if r.plant != leak {
		return func() {}
	}
	client := &http.Client{Transport: &http.Transport{
		MaxConnsPerHost: 1,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			sockets, _ := filepath.Glob(filepath.Join(r.folder, "weir-*", "control.sock"))
			if len(sockets) != 1 {
				return nil, fmt.Errorf("the agent answers at %q", sockets)
			}
			return net.Dial("unix", sockets[0])
		},
	}}
	ask := func() {
		if answer, err := client.Get("http://weir/status"); err == nil {
			_, _ = io.Copy(io.Discard, answer.Body) // or the connection would end with it
			_ = answer.Body.Close()
		}
	}
	ask()
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-over:
				return
			case <-time.After(time.Second): // more often than it loses patience
				ask()
			}
		}
	}()
	return func() {
		close(over)
		<-done
		client.CloseIdleConnections()
	}
}

func at(how string, r *round, call int) string { return fmt.Sprintf("-%s=%d@%d", how, r.world-1, call) }

func plants() string { return strings.Join(slices.Sorted(maps.Keys(defects)), ", ") }
