package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEveryCellHasSettings: of every peer, on machines with many cores and with few, and not too many of them.
func TestEveryCellHasSettings(t *testing.T) {
	for name, all := range map[string][]setting{"openmpi": openMPI(), "mpich": mpich(), "gloo": gloo(), "torch": torch()} {
		labels := map[string]bool{}
		for _, s := range all {
			if s.peer != name || s.label == "" || labels[s.label] {
				t.Errorf("%s: setting %+v has the wrong peer, or no label of its own", name, s)
			}
			labels[s.label] = true
		}
		for _, cores := range []int{2, 16} {
			for _, ranks := range []int{2, 4, 8} {
				for _, bytes := range []int64{8, 64, kib, 14 * kib, 84 * kib, 224 * kib, mib, 16 * mib, 64 * mib} {
					n := 0
					for _, s := range all {
						if s.fits(ranks, cores, bytes) {
							n++
						}
					}
					if n == 0 || n > 10 {
						t.Errorf("%s, %d ranks on %d cores, %d bytes: %d settings", name, ranks, cores, bytes, n)
					}
				}
			}
		}
	}
}

// TestSynchronousRingsStaySmall: Gloo's hang with large messages.
func TestSynchronousRingsStaySmall(t *testing.T) {
	for _, s := range gloo() {
		if strings.HasPrefix(s.args[0], "ring") && s.args[1] != "async" && s.most > mib {
			t.Errorf("%s is tried up to %d bytes", s.label, s.most)
		}
	}
}

func TestOpenMPIArguments(t *testing.T) {
	find := func(label string) setting {
		i := slices.IndexFunc(openMPI(), func(s setting) bool { return s.label == label })
		return openMPI()[i]
	}
	for _, c := range []struct {
		label string
		major int
		want  string
	}{
		{"coll/sm, bound", 4, "--oversubscribe --mca mpi_yield_when_idle 0 --bind-to core --mca pml ob1 --mca btl self,vader --mca coll_sm_priority 100"},
		{"coll/sm, bound", 5, "--oversubscribe --mca mpi_yield_when_idle 0 --map-by core --bind-to core --mca pml ob1 --mca btl self,sm --mca coll_sm_priority 100"},
		{
			"ob1 no CMA rabenseifner, yield", 4, "--oversubscribe --bind-to none --mca mpi_yield_when_idle 1 --mca pml ob1 --mca btl self,vader " +
				"--mca btl_vader_single_copy_mechanism none --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_allreduce_algorithm 6",
		},
		{
			"ob1 no CMA rabenseifner, yield", 5, "--oversubscribe --bind-to none --mca mpi_yield_when_idle 1 --mca pml ob1 --mca btl self,sm " +
				"--mca smsc ^cma --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_allreduce_algorithm 6",
		},
	} {
		if d := cmp.Diff(c.want, strings.Join(openMPIArgs(find(c.label), c.major), " ")); d != "" {
			t.Errorf("%s, version %d: %s", c.label, c.major, d)
		}
	}
}

func TestVersions(t *testing.T) {
	for text, want := range map[string]string{
		"mpirun (Open MPI) 4.1.4\n\nReport bugs to": "4.1.4", "HYDRA build details:\n    Version:   4.0.2": "4.0.2", "2.6.0+debian True": "2.6.0", "nothing": "",
	} {
		if got := versionIn(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := majorMinor("4.1.4"); got != "4.1" {
		t.Errorf("%q", got)
	}
	if got := majorMinor("5"); got != "5" {
		t.Errorf("%q", got)
	}
}

func TestGlooRanks(t *testing.T) {
	got := ranksOf([]string{"gloo"}, setting{args: []string{"ring", "sync"}, pinned: true}, cell{3, 1024, peerType}, 0.2, "/store", 2)
	if len(got) != 3 || strings.Join(got[2].argv, " ") != "gloo 2 3 /store ring sync 1024 0.2" || got[2].cpu != 0 || got[1].cpu != 1 {
		t.Errorf("%+v", got)
	}
}
