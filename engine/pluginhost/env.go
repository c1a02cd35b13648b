package pluginhost

import (
	"maps"
	"net/url"
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

// secretWords are those of names whose values are secrets, or lead to one, though their prefix is passed on: such as
// OTEL_EXPORTER_OTLP_HEADERS, which has the keys of collectors, OTEL_EXPORTER_OTLP_CLIENT_KEY and NVIDIA_API_KEY. A plugin gets them
// only by its configuration.
var secretWords = []string{
	"HEADERS", "HEADER", "KEY", "KEYS", "APIKEY", "TOKEN", "TOKENS", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS",
	"AUTH", "AUTHORIZATION", "COOKIE", "COOKIES", "CLIENT", "USERNAME",
}

func passed(name string) bool {
	if slices.Contains(passedNames, name) {
		return true
	}
	return slices.ContainsFunc(passedPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) &&
		!lo.Some(secretWords, strings.Split(strings.ToUpper(name), "_"))
}

// withoutUser takes the user and password out of a URL, which exporters do not use.
func withoutUser(kv string) string {
	name, value, _ := strings.Cut(kv, "=")
	if !strings.HasSuffix(name, "_ENDPOINT") {
		return kv
	}
	u, err := url.Parse(value)
	if err != nil || u.User == nil {
		return kv
	}
	u.User = nil
	return name + "=" + u.String()
}

// environment is what a plugin gets: the variables passed on, then its own.
func environment(own map[string]string) []string {
	env := lo.FilterMap(os.Environ(), func(kv string, _ int) (string, bool) {
		name, _, _ := strings.Cut(kv, "=")
		return withoutUser(kv), passed(name)
	})
	for _, name := range slices.Sorted(maps.Keys(own)) {
		env = append(env, name+"="+own[name])
	}
	return env
}
