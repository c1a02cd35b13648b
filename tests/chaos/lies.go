package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

const lie = "plugin lies: "

// whatIsSaid are the codes of declines of plugins that lie.
var whatIsSaid = map[string]string{
	"hangs": "TIMEOUT", "exits": "PLUGIN_CRASHED", "hangs in accept": "TIMEOUT", "crashes in accept": "PLUGIN_CRASHED", "panics in accept": "OTHER",
	"accepts nothing": "OTHER", "hangs in plan": "TIMEOUT", "crashes in plan": "PLUGIN_CRASHED", "unproved plan": "PLAN_REJECTED", "impossible plan": "PLAN_REJECTED",
}

func planLies(r *rand.Rand, p *plan) {
	lies := []string{"hangs", "exits", "hangs in accept", "crashes in accept", "panics in accept", "accepts nothing", "hangs in plan", "crashes in plan", "impossible plan"}
	if p.world > 2 {
		lies = append(lies, "unproved plan") // for two it is right
	}
	for n, at := range r.Perm(len(lies))[:4] {
		p.add(fault{kind: lie + lies[at], whom: n, arg: lies[at]})
	}
}

// lies: whatever plugins say or do when they are asked is a decline, with its code, and the next is asked.
func lies(r *round) error {
	env := []string{"WEIR_DEADLINES__START=2500ms", "WEIR_DEADLINES__CALL=500ms", "WEIR_RESTART__FIRST=20s", "WEIR_RESTART__LONGEST=20s"}
	for _, f := range r.faults {
		key := fmt.Sprintf("WEIR_PLUGINS__LIAR%d", f.whom)
		env = append(env, key+"__PATH="+filepath.Join(r.bin, "programs", "badplugin"), key+"__ENV__BAD="+f.arg, fmt.Sprintf("%s__ENV__NAME=liar%d", key, f.whom))
	}
	at := time.Now()
	engine, err := r.begin(env, "-calls=60")
	if err != nil {
		return err
	}
	if err := r.right(r.all, engine.wait()); err != nil {
		return err
	}
	for _, f := range r.faults {
		code := whatIsSaid[f.arg]
		said := regexp.MustCompile(fmt.Sprintf(`liar%d .*decline +%s`, f.whom, code))
		if _, found := r.all.find(said); !found {
			return fmt.Errorf("nobody says that the plugin that %s is declined with %s", strings.TrimSpace(f.arg), code)
		}
		r.note(f, at, "declined: "+code)
	}
	return nil
}
