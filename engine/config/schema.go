package config

import (
	"reflect"
	"slices"
	"strings"
)

// node is what may stand at one key: a section (fields), a mapping with keys of the user's choosing (elem), or a value.
// It is derived from the Config struct, so that a key exists in one place only.
type node struct {
	typ    reflect.Type
	fields []field
	elem   *node  // of a mapping
	keys   string // of a mapping: what its keys are (NAME, MEMORY, VARIABLE, SETTING)
	path   bool   // a path, made absolute
}

type field struct {
	name string
	node *node
}

var (
	free       = reflect.TypeFor[any]() // a value that only its plugin understands
	stringList = reflect.TypeFor[[]string]()
)

// schema is the tree of all of Config's keys.
var schema = schemaOf(reflect.TypeFor[Config]())

func schemaOf(t reflect.Type) *node {
	n := &node{typ: t}
	switch t.Kind() {
	case reflect.Struct:
		for f := range t.Fields() {
			child := schemaOf(f.Type)
			child.keys, child.path = f.Tag.Get("keys"), f.Tag.Get("is") == "path"
			n.fields = append(n.fields, field{f.Tag.Get("koanf"), child})
		}
	case reflect.Map:
		n.elem = schemaOf(t.Elem())
	}
	return n
}

// section reports whether n has keys below it rather than a value.
func (n *node) section() bool { return n.fields != nil || n.elem != nil }

// child is the node of a key, nil if there is none. Every key of a mapping has one, whether the key is allowed or not.
func (n *node) child(key string) *node {
	for _, f := range n.fields {
		if f.name == key {
			return f.node
		}
	}
	return n.elem
}

// known lists every key of the tree. Where a key is the user's to choose, it takes the one that actual has there.
func (n *node) known(prefix, actual []string) []string {
	var all []string
	if len(prefix) > 0 {
		all = append(all, strings.Join(prefix, "."))
	}
	for _, f := range n.fields {
		all = append(all, f.node.known(extend(prefix, f.name), actual)...)
	}
	if n.elem != nil {
		key := n.keys
		if len(actual) > len(prefix) && slices.Equal(actual[:len(prefix)], prefix) {
			key = actual[len(prefix)]
		}
		all = append(all, n.elem.known(extend(prefix, key), actual)...)
	}
	return all
}

// extend is path with one more key, never sharing memory with another path.
func extend(path []string, key string) []string {
	return append(path[:len(path):len(path)], key)
}
