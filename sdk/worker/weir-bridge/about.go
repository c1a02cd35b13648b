package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
)

// about is what a worker says of itself.
type about struct {
	Name, Version string // of the plugin
	Info          backend.Info
	Plan          plan.Worker
}

// parse reads the worker's first line: a JSON object with the plugin's "version"; the "backend" as plugin.proto's Backend,
// without the kind; and the size of its slots. The plugin is called as its backend.
func parse(line []byte) (about, error) {
	var text struct {
		Version   string          `json:"version"`
		Backend   json.RawMessage `json:"backend"`
		SlotBytes int64           `json:"slot_bytes"`
		Slots     int             `json:"slots"`
	}
	d := json.NewDecoder(strings.NewReader(string(line)))
	d.DisallowUnknownFields()
	if err := d.Decode(&text); err != nil {
		return about{}, fmt.Errorf("what the worker offers is not right: %w", err)
	}
	if len(text.Backend) == 0 {
		return about{}, errors.New(`what the worker offers is not right: it has no "backend"`)
	}
	message := &pluginv1.Backend{}
	if err := protojson.Unmarshal(text.Backend, message); err != nil {
		return about{}, fmt.Errorf("the worker's backend is not right: %w", err)
	}
	message.Kind = string(plan.WorkerKind)
	info, err := pluginv1.ToInfo(message)
	if err != nil {
		return about{}, fmt.Errorf("the worker's backend is not right: %w", err)
	}
	a := about{Name: info.Name, Version: text.Version, Info: info, Plan: plan.Worker{SlotBytes: text.SlotBytes, Slots: text.Slots}}
	if err := a.Plan.Validate(2); err != nil {
		return about{}, fmt.Errorf("%w: want 1 to %d slots of a multiple of 64 bytes up to %d", err, plan.MaxSlots, plan.MaxTileBytes)
	}
	return a, nil
}
