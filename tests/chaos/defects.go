package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// defect is something that is wrong on purpose in every round, so that chaos must find it.
type defect func(*round) []string

// args are the defect's arguments to the ranks' program; none without a defect.
func (d defect) args(r *round) []string {
	if d == nil {
		return nil
	}
	return d(r)
}

var defects = map[string]defect{
	"wrong sum":    func(r *round) []string { return []string{at("wrong", r, 20)} },
	"lost call":    func(r *round) []string { return []string{at("lost", r, 20)} },
	"doubled call": func(r *round) []string { return []string{at("double", r, 20)} },
	"process":      func(r *round) []string { return []string{"-leave", r.bin + "/programs/idle"} },
}

func at(how string, r *round, call int) string { return fmt.Sprintf("-%s=%d@%d", how, r.world-1, call) }

func plants() string { return strings.Join(slices.Sorted(maps.Keys(defects)), ", ") }
