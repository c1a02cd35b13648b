package backend_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/topology"
)

// TestFields: every requirement is listed, empty if it requires nothing and in words if it does.
func TestFields(t *testing.T) {
	none := backend.Requirements{}.Fields()
	if n := reflect.TypeFor[backend.Requirements]().NumField(); len(none) != n {
		t.Errorf("%d fields are listed, the type has %d", len(none), n)
	}
	for _, f := range none {
		if len(f.Needs) > 0 {
			t.Errorf("%s requires %q of a backend that requires nothing", f.Name, f.Needs)
		}
	}
	all := backend.Requirements{
		WorldSizes: backend.Exactly(2, 4), Memories: []collective.Memory{collective.CUDA}, DataTypes: []collective.DataType{collective.Float16},
		Ops: []collective.Op{collective.Sum}, Scope: backend.OneHost, NUMANodes: 2, Links: []topology.Class{topology.NVLink}, LinksFrom: 3,
		P2P: topology.P2PVerified, Multicast: true, Vendors: []string{"nvidia"}, Capabilities: []string{"9.0"}, Platforms: []string{"linux/amd64"},
		Driver: "550", Libraries: []collective.Library{{Name: "nccl", Version: "2.27"}}, Windows: []backend.Window{{Range: upTo(1024)}},
		Multiple: 16, Alignment: 16, Placement: collective.InPlace, Modes: []backend.Mode{backend.Eager}, Registered: true, InFlight: 1, Deterministic: true,
		Order: backend.RankOrder,
	}
	for i := range reflect.TypeOf(all).NumField() {
		if reflect.ValueOf(all).Field(i).IsZero() {
			t.Errorf("the test sets no %s", reflect.TypeOf(all).Field(i).Name)
		}
	}
	var shown []string
	for _, f := range all.Fields() {
		if len(f.Needs) == 0 {
			t.Errorf("%s is not shown", f.Name)
		}
		shown = append(shown, f.Name+": "+strings.Join(f.Needs, ", "))
	}
	for _, want := range []string{"world_sizes: 2, 4 ranks", "links: NVLink on every pair", "libraries: nccl 2.27 or newer", "windows: 1 B to 1 KiB", "driver: 550 or newer"} {
		if !strings.Contains(strings.Join(shown, "\n"), want) {
			t.Errorf("no %q in\n%s", want, strings.Join(shown, "\n"))
		}
	}
}
