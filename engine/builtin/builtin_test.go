package builtin_test

import (
	"fmt"
	"testing"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
	"github.com/weir-project/weir/engine/builtin"
)

// TestServesEveryHostClass: whatever the class and the number of ranks, it accepts every byte count with a plan that is proved.
func TestServesEveryHostClass(t *testing.T) {
	c := builtin.Candidate()
	for _, world := range []int{1, 2, 3, 8, 65, plan.MaxWorld} {
		t.Run(fmt.Sprint(world), func(t *testing.T) {
			group := collective.HostGroup("g", world)
			for index := range collective.NumClasses {
				class := collective.ClassAt(index)
				if class.Memory != collective.Host {
					continue
				}
				req := backend.Request{Group: group, Class: class}
				if v := c.Info.Check(req); v.Kind != backend.Accept {
					t.Fatalf("%s: %s", class, v)
				}
				v, err := c.Backend.Accept(t.Context(), req)
				if err != nil || v.Kind != backend.Accept || len(v.Ranges) != 1 || v.Ranges[0] != backend.AllBytes()[0] {
					t.Fatalf("%s: %s, %v", class, v, err)
				}
			}
			p, err := c.Backend.Plan(t.Context(), backend.Request{Group: group}, backend.AllBytes())
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Validate(world); err != nil {
				t.Error(err)
			}
			if err := schedule.Prove(p.(*plan.Schedule)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestIsNotForDevices: memory of a GPU is no place for it.
func TestIsNotForDevices(t *testing.T) {
	req := backend.Request{Group: collective.HostGroup("g", 2), Class: collective.Class{Memory: collective.CUDA}}
	if v := builtin.Candidate().Info.Check(req); v.Kind != backend.Decline {
		t.Errorf("%s", v)
	}
}
