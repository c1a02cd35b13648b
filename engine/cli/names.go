package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/engine/config"
)

// checkNames refuses a cascade that names a backend which no plugin offers: a typing error must not change what runs
// without a word. Built-in values may name what is absent, and a plugin that did not start, or is disabled, may offer
// what nobody else does.
func checkNames(l *config.Loaded, candidates []dispatch.Candidate) error {
	silent := lo.SomeBy(candidates, func(c dispatch.Candidate) bool { return c.Backend == nil }) ||
		lo.SomeBy(slices.Collect(maps.Values(l.Config.Plugins)), func(p config.Plugin) bool { return p.Disabled })
	if silent {
		return nil
	}
	known := lo.Map(candidates, func(c dispatch.Candidate, _ int) string { return c.Info.Name })
	check := func(key string, names ...string) error {
		origin := l.Origin(key)
		for _, name := range names {
			if origin == config.BuiltIn || name == "" || slices.Contains(known, name) {
				continue
			}
			return fmt.Errorf("%s: %s names the backend %q, which no plugin offers%s", origin, key, name, orAll(known, name))
		}
		return nil
	}
	if err := check("cascade.order", l.Config.Cascade.Order...); err != nil {
		return err
	}
	if err := check("cascade.disabled", l.Config.Cascade.Disabled...); err != nil {
		return err
	}
	for _, memory := range slices.Sorted(maps.Keys(l.Config.Cascade.Fallback)) {
		if err := check("cascade.fallback."+memory, l.Config.Cascade.Fallback[memory]); err != nil {
			return err
		}
	}
	return nil
}

// orAll names the known name that was meant, or else all of them.
func orAll(known []string, name string) string {
	if m := meant(known, name); m != "" || len(known) == 0 {
		return m
	}
	return "; there are " + strings.Join(slices.Sorted(slices.Values(known)), ", ")
}
