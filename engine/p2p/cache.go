package p2p

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/engine/files"
)

// State is what a proof holds for: what it was found with, until the machine starts again.
type State struct {
	Weir    string   `json:"weir"` // version
	Driver  string   `json:"driver"`
	Boot    string   `json:"boot"`    // the kernel's id of this start of the machine
	Devices []string `json:"devices"` // identities, sorted
}

// StateOf is the state with a machine's devices.
func StateOf(weir, driver, boot string, devices []topology.Device) State {
	ids := lo.Map(devices, func(d topology.Device, _ int) string { return d.Identity() })
	slices.Sort(ids)
	return State{weir, driver, boot, ids}
}

// Cache keeps what was found, a file for each state of the machine. The zero value keeps nothing.
type Cache struct{ Dir string }

// record is the content of a file.
type record struct {
	State  State            `json:"state"`
	At     time.Time        `json:"at"`
	Proofs []topology.Proof `json:"proofs"`
}

func (c Cache) file(s State) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings only
	}
	return filepath.Join(c.Dir, fmt.Sprintf("%x.json", sha256.Sum256(text)))
}

// usable reports whether the state can be told from others.
func (c Cache) usable(s State) bool {
	return c.Dir != "" && s.Driver != "" && s.Boot != "" && len(s.Devices) > 1 && !slices.Contains(s.Devices, "")
}

// maxRecord is far more than the proofs of any machine.
const maxRecord = 16 << 20

// Load is what was found in a state; nothing if there is no file that can be read, or it is of something else.
func (c Cache) Load(s State) []topology.Proof {
	if !c.usable(s) {
		return nil
	}
	text, err := files.Read(context.Background(), c.file(s), maxRecord)
	var r record
	if err != nil || json.Unmarshal(text, &r) != nil || c.file(r.State) != c.file(s) {
		return nil
	}
	return lo.Filter(r.Proofs, func(p topology.Proof, _ int) bool {
		return slices.Contains([]topology.P2P{topology.P2PVerified, topology.P2PFailed, topology.P2PNone}, p.Result)
	})
}

// Replace has the file hold what was found and nothing else.
func (c Cache) Replace(s State, proofs []topology.Proof) error {
	if !c.usable(s) {
		return nil
	}
	text, err := json.MarshalIndent(record{s, time.Now().UTC(), proofs}, "", " ")
	if err != nil {
		return err
	}
	return c.write(c.file(s), text)
}

// Store adds what was found to what the file has, in the place of what it has of the same directions.
func (c Cache) Store(s State, proofs []topology.Proof) error {
	if !c.usable(s) {
		return nil
	}
	all := slices.Clone(proofs)
	for _, old := range c.Load(s) {
		if !slices.ContainsFunc(proofs, func(p topology.Proof) bool { return p.From == old.From && p.To == old.To }) {
			all = append(all, old)
		}
	}
	return c.Replace(s, all)
}

// write writes a file so that whoever reads it meanwhile finds the old or the new.
func (c Cache) write(path string, text []byte) error {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(c.Dir, ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
