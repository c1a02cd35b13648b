package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule/allreduce"
	"github.com/weir-project/weir/sdk/proto/rankv1"
	"github.com/weir-project/weir/tests/await"
)

// ring is flat with another plan.
type ring struct{ flat }

func (ring) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	return allreduce.Ring(req.Group.WorldSize(), 4096), nil
}

// versions are processes of a plugin: flat, ring, flat, …
func versions(process uint64) func() []dispatch.Candidate {
	b := backend.Backend(flat{})
	if process%2 == 0 {
		b = ring{}
	}
	return func() []dispatch.Candidate {
		return []dispatch.Candidate{{Plugin: "test", Info: flat{}.Info(), Backend: b, Process: process}}
	}
}

// phase is what the agent asks a rank for in an upgrade.
type phase string

const (
	phasePrepare phase = "prepare"
	phaseTest    phase = "self-test"
	phaseStage   phase = "commit"
	phaseGate    phase = "gate"
	phaseSwitch  phase = "switch"
)

func phaseOf(m *rankv1.ToRank) phase {
	switch m.Body.(type) {
	case *rankv1.ToRank_Prepare:
		return phasePrepare
	case *rankv1.ToRank_SelfTest:
		return phaseTest
	case *rankv1.ToRank_Commit:
		return phaseStage
	case *rankv1.ToRank_Gate:
		return phaseGate
	case *rankv1.ToRank_Switch:
		return phaseSwitch
	}
	return ""
}

// idle answers what an idle rank is asked for in upgrades until the connection ends; before an answer act is called, and
// false keeps it from being given. It returns how often it was told of a switch, by whether that was committed.
func (c *client) idle(act func(phase, *rankv1.ToRank) bool) (switched map[bool]int) {
	switched = map[bool]int{}
	var instances []uint64
	for {
		m := &rankv1.ToRank{}
		if err := c.conn.Receive(m); err != nil {
			return switched
		}
		p := phaseOf(m)
		if p == phasePrepare {
			instances = lo.Map(m.GetPrepare().Instances, func(i *rankv1.Instance, _ int) uint64 { return i.Id })
		}
		if p == "" || !act(p, m) {
			continue
		}
		answer := report(m.Id, instances)
		switch p {
		case phaseStage:
			answer = report(m.Id, nil)
		case phaseGate:
			answer = &rankv1.FromRank{Id: m.Id, Body: &rankv1.FromRank_StepDone{StepDone: &rankv1.StepDone{Begun: m.GetGate().Number - 1}}}
		case phaseSwitch:
			switched[m.GetSwitch().Committed]++
			answer = &rankv1.FromRank{Body: &rankv1.FromRank_Switched{Switched: &rankv1.Switched{Group: m.GetSwitch().Group, Turn: m.GetSwitch().Turn}}}
		}
		if c.conn.Send(answer) != nil {
			return switched
		}
	}
}

func always(phase, *rankv1.ToRank) bool { return true }

// upgradeTo has the agent replace process-1.
func (a *Agent) upgradeTo(t *testing.T, process uint64) ([]GroupUpgrade, error) {
	return a.Upgrade(await.Context(t, await.Plenty), Upgrade{Plugin: "test", Replaced: process - 1, Candidates: versions(process), Accept: func() error { return nil }})
}

func patient(o *Options) { o.Candidates = versions(1) }

// impatient agents do not wait long for a rank that is silent, but long enough for one on a machine that is busy.
func impatient(o *Options) {
	patient(o)
	o.PrepareDeadline, o.SelfTestDeadline, o.grace = await.For(time.Second), await.For(time.Second), await.For(300*time.Millisecond)
}

// TestRankGoesInAnUpgrade: in any phase a rank leaves its group, or its process ends, or it does not answer. The upgrade comes
// to an end, says what became of the group, and the group has one table or the other: what was prepared is given back.
func TestRankGoesInAnUpgrade(t *testing.T) {
	for _, p := range []phase{phasePrepare, phaseTest, phaseStage, phaseGate, phaseSwitch} {
		for _, how := range []string{"leaves", "ends", "is silent"} {
			t.Run(fmt.Sprintf("%s at %s", how, p), func(t *testing.T) {
				t.Parallel()
				options := patient
				if how == "is silent" {
					options = impatient
				}
				a := startAgent(t, 3, options)
				defer a.Close()
				clients := joined(t, a)
				group := clients[0].group
				wantServed(t, group, sum, clients...)
				g := a.liveGroups()[0]
				g.mu.Lock()
				shared := g.shared
				g.mu.Unlock()
				var ends sync.WaitGroup
				for _, c := range clients[:2] {
					ends.Go(func() { c.idle(always) })
				}
				var once sync.Once
				last := clients[2]
				ends.Go(func() {
					last.idle(func(now phase, _ *rankv1.ToRank) bool {
						if now != p {
							return true
						}
						once.Do(func() {
							switch how {
							case "leaves":
								_ = last.conn.Send(leaveGroup(group))
							case "ends":
								_ = last.conn.Close()
							}
						})
						return how == "leaves"
					})
				})
				report, err := a.upgradeTo(t, 2)
				committed := p == phaseSwitch
				switch {
				case committed && (err != nil || len(report) != 1 || report[0].Call == 0):
					t.Errorf("%v, %v; want a switch", report, err)
				case !committed && how == "is silent" && (err == nil || !strings.Contains(err.Error(), "rank 2 did not report")):
					t.Errorf("%v, %v; want who did not answer", report, err)
				case !committed && how != "is silent" && p != phaseGate && (err != nil || len(report) != 1 || report[0].Skipped == ""):
					t.Errorf("%v, %v; want the group to be skipped", report, err)
				case !committed && how == "ends" && p == phaseGate && (err == nil || !strings.Contains(err.Error(), "rank 2")):
					t.Errorf("%v, %v; want who ended", report, err)
				}
				if !committed {
					until(t, func() bool {
						g.mu.Lock()
						defer g.mu.Unlock()
						return g.closed || g.shared == shared && g.upgrade == nil
					})
				} else if how == "is silent" {
					until(t, func() bool { s := a.Status(false)[0].Switch; return s != nil && slices.Equal(s.Ranks, []int{2}) })
				} else {
					until(t, func() bool { return a.Status(false)[0].Switch == nil })
				}
				for _, c := range clients {
					_ = c.conn.Close()
				}
				ends.Wait()
			})
		}
	}
}

// TestGroupIsSkipped: a group whose rank does not answer when another group has switched keeps its plans, the report says so,
// and the next upgrade takes it along.
func TestGroupIsSkipped(t *testing.T) {
	a := startAgent(t, 2, impatient)
	defer a.Close()
	clients := joined(t, a)
	ids := lo.Map(clients, func(c *client, _ int) uint64 { return c.say(newGroupOf(0, 1)) })
	second := ""
	for r, c := range clients {
		second = c.wantGroup(ids[r], r, 2)
	}
	for _, g := range []string{clients[0].group, second} {
		wantServed(t, g, sum, clients...)
	}
	var ends sync.WaitGroup
	var mu sync.Mutex
	deaf := true
	switched := make([]map[bool]int, 2)
	for r, c := range clients {
		ends.Go(func() {
			switched[r] = c.idle(func(p phase, m *rankv1.ToRank) bool {
				mu.Lock()
				defer mu.Unlock()
				return !deaf || r == 0 || p != phaseGate || m.GetGate().Group != second
			})
		})
	}
	report, err := a.upgradeTo(t, 2)
	if err != nil || len(report) != 2 || report[0].Call == 0 || report[1].Group != second || !strings.Contains(report[1].Skipped, "rank 1 did not report gate") {
		t.Errorf("%v, %v; want %s to be skipped", report, err, second)
	}
	if s := a.Status(false); s[0].Epoch != 2 || s[1].Epoch != 1 {
		t.Errorf("epochs of %+v, want 2 and 1", s)
	}
	mu.Lock()
	deaf = false
	mu.Unlock()
	report, err = a.upgradeTo(t, 4) // the plans of 2, which the first group has already
	if err != nil || len(report) != 2 || report[1].Call == 0 {
		t.Errorf("%v, %v; want %s to switch", report, err, second)
	}
	until(t, func() bool { return a.Status(false)[1].Switch == nil })
	for _, c := range clients {
		_ = c.conn.Close()
	}
	ends.Wait()
	for r, n := range switched {
		if n[true] != 3 || n[false] != 1 {
			t.Errorf("rank %d was told of %d switches and %d that were given up, want 3 and 1", r, n[true], n[false])
		}
	}
}

// TestTwoUpgradesAtOnce: one waits for the other.
func TestTwoUpgradesAtOnce(t *testing.T) {
	a := startAgent(t, 2, patient)
	defer a.Close()
	clients := joined(t, a)
	wantServed(t, clients[0].group, sum, clients...)
	var idle, both sync.WaitGroup
	for _, c := range clients {
		idle.Go(func() { c.idle(always) })
	}
	errs := make([]error, 2)
	for i := range errs {
		both.Go(func() { _, errs[i] = a.upgradeTo(t, uint64(2+i)) })
	}
	both.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	if s := a.Status(false)[0]; s.Epoch != 3 {
		t.Errorf("epoch %d, want 3", s.Epoch)
	}
	for _, c := range clients {
		_ = c.conn.Close()
	}
	idle.Wait()
}
