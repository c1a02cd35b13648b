package pluginhost

import (
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/samber/lo"
)

// The variables of the engine that a plugin gets. Others stay with the engine: they may be secrets, and they would make
// a plugin behave differently from one machine to the next.
var (
	passedNames    = []string{"PATH", "HOME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "TRACEPARENT", "TRACESTATE"}
	passedPrefixes = []string{"LC_", "CUDA_", "NVIDIA_", "NCCL_", "OTEL_"}
)

// environment is what a plugin gets: the variables passed on, then its own.
func environment(own map[string]string) []string {
	env := lo.Filter(os.Environ(), func(kv string, _ int) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(passedNames, name) ||
			slices.ContainsFunc(passedPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
	})
	for _, name := range slices.Sorted(maps.Keys(own)) {
		env = append(env, name+"="+own[name])
	}
	return env
}
