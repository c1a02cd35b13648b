package main

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"time"
)

const lastKilled = "last backend killed"

func planLast(r *rand.Rand, p *plan) {
	for range 5 {
		p.add(fault{kind: lastKilled, after: between(r, 10*time.Millisecond, 200*time.Millisecond)})
	}
}

var noBackend = regexp.MustCompile(`(\d+) calls had no backend`)

// lastBackend: when nobody else serves a class its call is an error on every rank, and the next one asks again.
func lastBackend(r *round) error {
	env := append(r.workers("fine@"), "WEIR_CASCADE__DISABLED=shm-flat,shm-twoshot,shm-direct")
	engine, err := r.begin(env, r.until(), "-again", "-op=sum")
	if err != nil {
		return err
	}
	var struck error
	for _, f := range r.faults {
		r.sleep(f.after)
		at := time.Now()
		if struck = r.strike(r.worker(0), f, kill); struck != nil {
			break
		}
		r.note(f, at, "an error of the call on every rank, or none was made; the next is served")
	}
	if err := r.end(engine); err != nil {
		return err
	}
	failed := map[string]int{}
	for _, l := range r.all.findAll(noBackend) {
		failed[noBackend.FindStringSubmatch(l.text)[1]]++
	}
	if len(failed) > 1 || len(failed) == 1 && failed[firstOf(failed)] != r.world {
		return fmt.Errorf("calls had no backend on some ranks alone: %v", failed)
	}
	return struck
}

func firstOf(m map[string]int) string {
	for k := range m {
		return k
	}
	return ""
}
