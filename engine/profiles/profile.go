// Package profiles holds what SGLang and vLLM ask of their all-reduce backends, as data, and the shapes of models.
package profiles

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed *.yaml
var files embed.FS

// Profile is the cascade of one engine.
type Profile struct {
	Name    string `yaml:"-"`
	Engine  string
	Commit  string // of its source, which the gates were read from
	Assumes string // what holds of the calls and the set-up
	// Backends are in cascade order.
	Backends []*Backend
}

// Backend is one row of an engine's cascade.
type Backend struct {
	Name   string
	Title  string
	Switch string // what turns it on; "" if it is on by default
	// Models are the classes of models that turn it on without the switch.
	Models   []string
	Requires requires
	// WindowsBeside are the windows used instead while another backend is live for the group.
	WindowsBeside map[string][]window `yaml:"windows_beside"`
	Remarks       []remark
}

// names are the profiles, in the order that `weir explain --compare` is usually given.
var names = []string{"sglang", "vllm"}

// Names lists the profiles.
func Names() []string { return slices.Clone(names) }

// Load reads a profile by name.
func Load(name string) (*Profile, error) {
	if !slices.Contains(names, name) {
		return nil, fmt.Errorf("unknown profile %q, want weir, %s", name, strings.Join(names, " or "))
	}
	p := &Profile{}
	if err := read(name+".yaml", p); err != nil {
		return nil, err
	}
	p.Name = name
	return p, p.validate()
}

// Model is the shape of a model.
type Model struct {
	Name         string `yaml:"-"`
	Hidden       int    // elements of one token's activation
	Layers       int
	AllReduces   int    `yaml:"all_reduces"` // of one forward pass, with tensor parallelism
	Architecture string // class name; "" if not known
}

// Models lists the models whose shapes are known.
func Models() []string {
	models, _ := readModels() // embedded; FindModel says what is wrong with it
	return slices.Sorted(maps.Keys(models))
}

func readModels() (map[string]Model, error) {
	models := map[string]Model{}
	return models, read("models.yaml", &models)
}

// FindModel reads a model's shape by name.
func FindModel(name string) (Model, error) {
	models, err := readModels()
	if err != nil {
		return Model{}, err
	}
	m, ok := models[strings.ToLower(name)]
	if !ok {
		return Model{}, fmt.Errorf("unknown model %q; give --hidden, or one of %s", name, strings.Join(slices.Sorted(maps.Keys(models)), ", "))
	}
	m.Name = strings.ToLower(name)
	return m, nil
}

// read decodes one embedded file strictly.
func read(name string, into any) error {
	data, err := files.ReadFile(name)
	if err != nil {
		return err
	}
	return decode(name, data, into)
}

func decode(name string, data []byte, into any) error {
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// validate converts every requirement once, so that a mistake in the data shows in the tests and not to a user.
func (p *Profile) validate() error {
	seen := map[string]bool{}
	for _, b := range p.Backends {
		if seen[b.Name] {
			return fmt.Errorf("profile %s: backend %s stands twice", p.Name, b.Name)
		}
		seen[b.Name] = true
		if err := b.validate(); err != nil {
			return fmt.Errorf("profile %s: %s: %w", p.Name, b.Name, err)
		}
	}
	for _, b := range p.Backends {
		for other := range b.WindowsBeside {
			if !seen[other] {
				return fmt.Errorf("profile %s: %s has windows beside %s, which is no backend", p.Name, b.Name, other)
			}
		}
	}
	return nil
}
