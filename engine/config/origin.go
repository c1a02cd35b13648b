package config

import (
	"maps"
	"slices"
	"strings"
)

// BuiltIn is the origin of a value that no source sets.
const BuiltIn = "default"

// Origin says where the value of a key such as "group.deadline" came from: "default", "weir.yaml:7" (the file as it was
// named, and the line), "WEIR_GROUP__DEADLINE" or "--deadline".
func (l *Loaded) Origin(key string) string {
	if origin, ok := l.origins[key]; ok {
		return origin
	}
	return BuiltIn
}

// section is the origin of a key that holds others: where it stands, or else where the first value below it came from.
func (l *Loaded) section(key string) string {
	if origin, ok := l.origins[key]; ok {
		return origin
	}
	for _, k := range slices.Sorted(maps.Keys(l.origins)) {
		if strings.HasPrefix(k, key+".") {
			return l.origins[k]
		}
	}
	return BuiltIn
}
