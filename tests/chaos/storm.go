package main

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"time"
)

// scenarios are the kinds of rounds.
var scenarios = []*scenario{
	{name: "storm over plans", times: 2, plan: planStorm, run: storm},
	{name: "storm over workers", times: 3, plan: planWorkerStorm, run: storm},
	{name: "workers go wrong", times: 2, plan: planWrongWorkers, run: wrongWorkers},
	{name: "the last backend dies", times: 1, plan: planLast, run: lastBackend},
	{name: "upgrades", times: 2, plan: planUpgrades, run: upgrades},
	{name: "a plugin is given up", times: 1, plan: planGivenUp, run: givenUp},
	{name: "plugins lie", times: 1, plan: planLies, run: lies},
	{name: "jobs", times: 4, plan: planJobs, run: jobs},
	{name: "jobs on a device", times: 1, device: true, plan: planDeviceJobs, run: jobs},
	{name: "a run ends", times: 2, plan: planEnds, run: ends},
	{name: "the agent ends", times: 1, plan: planAgentEnds, run: agentEnds},
}

const stormFaults = 16

func planStorm(r *rand.Rand, p *plan) {
	p.groups = r.IntN(4)
	for range stormFaults {
		p.add(drawStrike(r, p, false))
	}
}

func planWorkerStorm(r *rand.Rand, p *plan) {
	p.groups = r.IntN(4)
	for range stormFaults {
		p.add(drawStrike(r, p, true))
	}
}

// storm: ranks make checked calls, and whatever befalls plugins, or holds up ranks, costs time at most.
func storm(r *round) error {
	var env []string
	if r.scenario.name == "storm over workers" {
		env = r.workers("fine@", "fine@")
	}
	engine, err := r.begin(env, r.until())
	if err != nil {
		return err
	}
	struck := r.strikeAll(0)
	if err := r.end(engine); err != nil {
		return err
	}
	r.attribute()
	return struck
}

// attribute tells the faults after which a call went on with another backend.
func (r *round) attribute() {
	for _, l := range r.all.findAll(added) {
		for i := len(r.results) - 1; i >= 0; i-- {
			x := &r.results[i]
			if x.at.Before(l.at) && strings.Contains(x.kind, "worker") {
				x.outcome = "a call went on with another backend"
				break
			}
		}
	}
}

// workers configures worker plugins; the programs of all are the same. Their names are in the order of the cascade.
func (r *round) workers(faults ...string) []string {
	var env, names []string
	for i, f := range faults {
		how, at, _ := strings.Cut(f, "@")
		name := workerName(i)
		names = append(names, name)
		key := "WEIR_PLUGINS__" + strings.ToUpper(name)
		env = append(env, key+"__PATH="+r.workerFile(), key+"__ENV__NAME="+name, key+"__ENV__BAD="+how, key+"__ENV__AT="+at)
	}
	return append(env, "WEIR_CASCADE__ORDER="+strings.Join(names, ","))
}

// planWrongWorkers has some workers, each of which goes wrong at a tile of its own choice: while it is tried or in a call,
// also one that is larger than its slots and in place.
func planWrongWorkers(r *rand.Rand, p *plan) {
	most := 2 + r.IntN(3)
	for n := range most {
		how := oneOf(r, "killed", "stopped", "hangs", "panics")
		if n == most-1 && r.IntN(2) == 0 {
			how = "fails" // its process stays and serves again, so that none after it would be reached
		}
		p.add(fault{kind: "worker " + how + " at a tile", whom: n, arg: fmt.Sprintf("%s@%d", how, 1+r.IntN(6000))})
	}
	if r.IntN(2) == 0 {
		p.add(fault{kind: rankLate, whom: r.IntN(p.world), arg: fmt.Sprint(20 + r.IntN(100))})
	}
}

const rankLate = "rank late"

// wrongWorkers: each is left for the next when it has gone wrong.
func wrongWorkers(r *round) error {
	var how, args []string
	for _, f := range r.faults {
		if f.kind == rankLate {
			args = append(args, fmt.Sprintf("-late=%d@%s", f.whom, f.arg))
		} else {
			how = append(how, f.arg)
		}
	}
	env := append(r.workers(how...), "WEIR_RESTART__FIRST=20s", "WEIR_RESTART__LONGEST=20s") // or the same one goes wrong again and again
	start := time.Now()
	engine, err := r.begin(env, append(args, "-op=sum", r.until())...)
	if err != nil {
		return err
	}
	waited := r.awaitWrong(engine)
	if err := r.end(engine); err != nil {
		return err
	}
	for _, f := range r.faults {
		outcome := "calls go on"
		if f.kind != rankLate {
			outcome = "it was declined before a call"
			if _, found := r.all.find(regexp.MustCompile(leftFor(f))); found {
				outcome = "a call went on with another backend"
			}
		}
		r.note(f, start, outcome)
	}
	return waited
}

// leftFor is what is said when a call goes on without the worker that a fault is of.
func leftFor(f fault) string {
	return `a call went on with another backend.*from=` + workerName(f.whom) + ` `
}

// awaitWrong waits until every worker has gone wrong.
func (r *round) awaitWrong(engine *child) error {
	for _, f := range r.faults {
		if f.kind == rankLate {
			continue
		}
		went := regexp.MustCompile(leftFor(f) + `|backend declined.*backend=` + workerName(f.whom) + ` `)
		if _, err := engine.says(r.ctx, r.all, went); err != nil {
			return fmt.Errorf("%s does not go wrong (%s): %w", workerName(f.whom), f.arg, err)
		}
	}
	return nil
}
