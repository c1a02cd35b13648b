package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weir-project/weir/tests/await"
)

// engineStatus is what `weir status --format json` says of an engine, as far as it matters here.
type engineStatus struct {
	Plugins []pluginStatus
	Groups  []struct{ ID string }
}

type pluginStatus struct {
	Name  string
	PID   int
	Error string
}

// unsettled says why what an engine holds is not to be compared; "" if it is. Each plugin's process costs descriptors as long as it is
// there, and so do groups. So an engine is looked at while it has no group, and its children are its plugins, all of which serve, and the
// process that cleans up after it.
func unsettled(s engineStatus, children []process) string {
	if len(s.Groups) > 0 {
		return fmt.Sprintf("group %s is still there", s.Groups[0].ID)
	}
	names := map[int]string{}
	for _, p := range s.Plugins {
		if names[p.PID] = p.Name; p.Error != "" {
			return fmt.Sprintf("plugin %s does not serve: %s", p.Name, p.Error)
		}
	}
	for _, c := range children {
		switch _, serves := names[c.pid]; {
		case c.zombie:
			return fmt.Sprintf("process %d has ended and is not buried", c.pid)
		case serves:
			delete(names, c.pid)
		case len(c.args) < 2 || c.args[1] != "reap":
			return fmt.Sprintf("%s is no plugin that serves", c)
		}
	}
	for pid, name := range names {
		return fmt.Sprintf("process %d of plugin %s is gone", pid, name)
	}
	return ""
}

func childrenOf(pid int) (found []process) {
	for _, p := range allProcesses() {
		if p.parent == pid {
			found = append(found, p)
		}
	}
	return found
}

// status asks an engine.
func (r *round) status(pid int) (engineStatus, error) {
	var out bytes.Buffer
	cmd := r.command(nil, filepath.Join(r.bin, "weir"), []string{"status", "--format", "json", "--pid", strconv.Itoa(pid)})
	cmd.Stdout = &out
	c, err := r.start(cmd)
	if err != nil {
		return engineStatus{}, err
	}
	if err := c.wait(); err != nil {
		return engineStatus{}, fmt.Errorf("weir status: %w", err)
	}
	var all []engineStatus
	if err := json.Unmarshal(out.Bytes(), &all); err != nil || len(all) != 1 {
		return engineStatus{}, fmt.Errorf("weir status says %q: %w", out.String(), err)
	}
	return all[0], nil
}

// looksAtOnce are made between two looks at the children.
const looksAtOnce = 3

// lookAt is what an engine holds while it is settled, or why it was not. Processes that were there before and after have been there all the
// time: a plugin that is started again has another number.
func (r *round) lookAt(pid int) (u usage, why string, err error) {
	s, err := r.status(pid)
	if err != nil {
		return u, "", err
	}
	if why := unsettled(s, childrenOf(pid)); why != "" {
		return u, why, nil
	}
	u = usageOf(pid)
	for range looksAtOnce - 1 {
		r.sleep(10 * time.Millisecond)
		u = least(u, usageOf(pid))
	}
	return u, unsettled(s, childrenOf(pid)), nil
}

const (
	settlePatience = 40 * time.Second // with a plugin that is slow to come up, and is started again
	settledLooks   = 50               // that find what should be gone
)

// settled is what an engine holds once it is settled and enough says that it is, or at the last of many looks.
func (r *round) settled(pid int, enough func(usage) bool) (u usage, err error) {
	why, looks := "", 0
	for end := await.By(settlePatience); ; r.sleep(20 * time.Millisecond) {
		var now usage
		if now, why, err = r.lookAt(pid); err != nil {
			return u, err
		}
		if why == "" {
			u = now
			if looks++; enough(u) || looks == settledLooks {
				return u, nil
			}
		}
		if r.ctx.Err() != nil {
			return u, context.Cause(r.ctx)
		}
		if why != "" && time.Now().After(end) {
			return u, fmt.Errorf("the engine, process %d, is not settled within %s: %s", pid, await.For(settlePatience), why)
		}
	}
}

// rests is what an engine holds when it has nothing to do: the least of some looks.
func (r *round) rests(pid int) (usage, error) {
	const some = 3
	looks, sum := 0, usage{}
	_, err := r.settled(pid, func(u usage) bool {
		if looks++; looks == 1 {
			sum = u
		}
		sum = least(sum, u)
		return looks == some
	})
	return sum, err
}

// settles waits until an engine holds no more than before; the error says what it holds.
func (r *round) settles(pid int, before usage) error {
	u, err := r.settled(pid, func(u usage) bool { return len(u.growth(before)) == 0 })
	if grown := u.growth(before); err == nil && len(grown) > 0 {
		err = fmt.Errorf("the agent, process %d, has grown: %s", pid, strings.Join(grown, "; "))
	}
	return err
}
