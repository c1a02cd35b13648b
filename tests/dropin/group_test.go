package dropin

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// grouped runs a scenario of testdata/grouped.c as ranks of weir run.
// byDefault stands for how many sums of a group call are Weir's where nobody says.
const byDefault = "WEIR_NCCL_GROUP_SUMS="

func grouped(t *testing.T, ranks int, env []string, scenario ...string) (stdout, stderr string) {
	t.Helper()
	j := ncclJob{ranks: ranks, program: append([]string{linked(t, "grouped.c", "-lpthread")}, scenario...), env: env}
	if !slices.Contains(env, byDefault) {
		j.env = append([]string{"WEIR_NCCL_GROUP_SUMS=20"}, env...)
	}
	return j.underRun(t, dropIn(t))
}

// TestDropInGroup has programs make communicators and calls between ncclGroupStart and ncclGroupEnd, and counts which calls Weir has
// served. That the sums are right the programs see for themselves.
func TestDropInGroup(t *testing.T) {
	for name, c := range map[string]struct {
		ranks           int
		env             []string
		scenario        []string
		eager, captured uint64 // sums of float32
		served          int    // communicators
		says            string
	}{
		"nested, and one rank's alone":          {2, nil, []string{"made"}, 3, 1, 1, "end without start 5\n"},
		"two in another order on each rank":     {2, nil, []string{"crossed"}, 6, 0, 2, ""},
		"two by two threads":                    {2, nil, []string{"in threads"}, 16, 0, 8, ""},
		"one thread's beside another's":         {2, nil, []string{"split threads"}, 3, 0, 1, ""},
		"NCCL's and Weir's on three streams":    {2, nil, []string{"mixed"}, 4, 0, 1, ""},
		"the same, captured":                    {2, []string{"CAPTURE=1"}, []string{"mixed"}, 0, 4, 1, ""},
		"many":                                  {2, nil, []string{"many", "20"}, 20, 20, 1, ""},
		"as many as pay":                        {2, []string{byDefault}, []string{"many", "2"}, 2, 2, 1, ""},
		"more than pay":                         {2, []string{byDefault}, []string{"many", "3"}, 0, 0, 1, ""},
		"as many as the variable says":          {2, []string{"WEIR_NCCL_GROUP_SUMS=3"}, []string{"many", "3"}, 3, 3, 1, ""},
		"more than it says":                     {2, []string{"WEIR_NCCL_GROUP_SUMS=3"}, []string{"many", "4"}, 0, 0, 1, ""},
		"none":                                  {2, []string{"WEIR_NCCL_GROUP_SUMS=0"}, []string{"many", "1"}, 0, 0, 1, ""},
		"simulated":                             {2, nil, []string{"simulated"}, 1, 0, 1, "time 2, the data are as before\nnot initialised 4\n"},
		"parts":                                 {4, nil, []string{"parts"}, 3, 0, 5, ""},
		"parts, without blocking":               {4, []string{"FAKE_NCCL_LATER=20:2", "LATER=1"}, []string{"parts"}, 3, 0, 6, ""},
		"two without blocking, in turns":        {2, []string{"FAKE_NCCL_LATER=0"}, []string{"in turns"}, 4, 0, 2, ""},
		"two without blocking, in a group call": {2, []string{"FAKE_NCCL_LATER=20:1", "GROUPED=1"}, []string{"in turns"}, 4, 0, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			out, errs := grouped(t, c.ranks, c.env, c.scenario...)
			begins := regexp.MustCompile(`(?m)^\[\n`).FindAllStringIndex(out, -1)
			if begins == nil {
				t.Fatalf("no status:\n%s%s", out, errs)
			}
			if calls := callsOf(t, out[begins[len(begins)-1][0]:]); calls["cuda float32 sum eager"] != c.eager || calls["cuda float32 sum captured"] != c.captured {
				t.Errorf("calls %v, want %d eager and %d captured\n%s%s", calls, c.eager, c.captured, out, errs)
			}
			if !strings.Contains(out, c.says) || strings.Count(errs, "serves sums of") != c.served || strings.Contains(errs, "group failed") {
				t.Errorf("want %q, %d communicators that are served and none that fails\n%s%s", c.says, c.served, out, errs)
			}
		})
	}
}

// TestDropInGroupFails holds that none of Weir's sums begins when NCCL's part fails, and that Weir's error is the end's.
func TestDropInGroupFails(t *testing.T) {
	out, errs := grouped(t, 2, nil, "errors")
	if calls := callsOf(t, out); calls["cuda float32 sum eager"] != 2 {
		t.Errorf("calls %v, want the 2 of those that succeed\n%s%s", calls, out, errs)
	}
	for _, want := range []string{"of NCCL 4, end 4\n", "of a communicator 4, end 4\n", "of Weir, end 4 Weir: weir_all_reduce_device: all-reduce 3 of group g2: dst (0x0) is not device memory"} {
		if strings.Count(out, want) != 2 {
			t.Errorf("lacks %q of both ranks:\n%s", want, out)
		}
	}
	out, errs = grouped(t, 2, []string{"FAKE_NCCL_FAIL=init:3"}, "unmade")
	if out != "end 3\nend 3\n" || strings.Contains(errs, "weir-nccl[") {
		t.Errorf("communicators that NCCL cannot make:\n%s%s", out, errs)
	}
}

// TestDropInGroupRefused has the ranks of two communicators that one group call makes not agree.
func TestDropInGroupRefused(t *testing.T) {
	j := ncclJob{ranks: 2, program: []string{linked(t, "grouped.c", "-lpthread"), "refused"}}
	out := j.underAgent(t, func(rank int) []string {
		return [][]string{{"NRANK=0", "WEIR_NCCL_TIMEOUT=1"}, {"NRANK=1", "LD_PRELOAD="}}[rank]
	})
	if !strings.Contains(out[0], "\nended\n[<nil>]") || !strings.Contains(out[0], "end 2 Weir: a rank did not answer in time: every rank of a communicator must have this library, or none, and what") {
		t.Errorf("rank 0:\n%s\nrank 1:\n%s", out[0], out[1])
	}
}

// TestDropInSeveralRanks has several ranks in a process: all is NCCL's, which is said, and the process joins no agent when it has only such.
func TestDropInSeveralRanks(t *testing.T) {
	const one = `serves this communicator of %d ranks alone, because ranks 0 and \d are one process`
	for name, c := range map[string]struct {
		ranks, devices int
		env            []string
		want           []string
	}{
		"all":       {1, 2, nil, []string{fmt.Sprintf(one, 2), "of 2 ranks alone, because ncclCommInitAll has made it", `one process \(3 communicators so far\)`}},
		"two each":  {2, 4, nil, []string{fmt.Sprintf(one, 4)}},
		"and a one": {2, 3, []string{"LAST=1"}, []string{fmt.Sprintf(one, 3)}},
	} {
		t.Run(name, func(t *testing.T) {
			out, errs := grouped(t, c.ranks, slices.Concat(c.env, []string{"FAKE_CUDA_DEVICES=" + strconv.Itoa(c.devices)}), "several", "2")
			if strings.Count(out, "right, ") != c.ranks || strings.Contains(errs, "serves sums of") {
				t.Errorf("it is not NCCL's:\n%s%s", out, errs)
			}
			for _, want := range c.want {
				if !regexp.MustCompile(want).MatchString(errs) {
					t.Errorf("lacks %q:\n%s", want, errs)
				}
			}
			if c.env == nil && strings.Count(out, "right, threads 5\n") != c.ranks { // two of streams are its own, two of votes' streams
				t.Errorf("it has threads of Go:\n%s", out)
			}
		})
	}
}

// TestDropInCounts holds that a communicator that is left to NCCL has its line, and that many of them have few.
func TestDropInCounts(t *testing.T) {
	_, errs := grouped(t, 2, []string{"WEIR_PLUGINS__NCCL__DISABLED=true"}, "alone", "17")
	lines := regexp.MustCompile(`(?m)^weir-nccl\[\d+\]: NCCL 22809 of \S+ serves this communicator of 2 ranks alone, because no backend .*$`).FindAllString(errs, -1)
	if len(lines) != 9 || strings.Contains(lines[0], "so far") || !strings.HasSuffix(lines[1], " (2 communicators so far)") ||
		!strings.HasSuffix(lines[7], " (8 communicators so far; from here on at twice as many)") || !strings.HasSuffix(lines[8], " (16 communicators so far)") {
		t.Errorf("want 9 lines:\n%s", errs)
	}
	_, errs = grouped(t, 1, nil, "alone", "1")
	if !strings.Contains(errs, "serves this communicator of 1 rank alone, because it has one rank\n") {
		t.Errorf("one of one rank:\n%s", errs)
	}
}

// TestDropInPerf makes the calls of NVIDIA's nccl-tests, of every type and op, eager and in graphs, also of group calls. Of each type that Weir
// serves it counts the sums that status shows.
func TestDropInPerf(t *testing.T) {
	program := linked(t, "perf.c", "-lm")
	for arguments, want := range map[string][2]uint64{ // eager and captured, of four sizes in and out of place
		"-n 2":               {1 + 8*4, 0},
		"-n 2 -G":            {1 + 8, 8 * 3},
		"-n 1 -m 20 -o 0":    {1 + 8*22, 0},
		"-n 1 -m 20 -G -o 0": {1 + 8, 8 * 21},
		"-n 1 -m 21 -o 0":    {1 + 8*2, 0}, // NCCL's, but for those outside of the group call
		"-n 2 -R 2 -y -o 0":  {1 + 8*4, 0},
		"-n 2 -R 1 -z -o 0":  {1 + 8*4, 0},
	} {
		t.Run(arguments, func(t *testing.T) {
			j := ncclJob{ranks: 2, program: append([]string{program}, strings.Fields(arguments)...), env: []string{"WEIR_NCCL_GROUP_SUMS=20"}}
			out, errs := j.underRun(t, dropIn(t))
			calls := callsOf(t, out)
			for _, class := range []string{"float32", "float16", "bfloat16"} {
				if calls["cuda "+class+" sum eager"] != want[0] || calls["cuda "+class+" sum captured"] != want[1] {
					t.Errorf("calls %v, want %d eager and %d captured of %s\n%s", calls, want[0], want[1], class, errs)
				}
			}
			if strings.Count(out, "right\n") != 2 || strings.Count(errs, "serves sums of float32 float16 bfloat16 in this communicator of 2 ranks") != 1 {
				t.Errorf("not right, or not served:\n%s%s", out, errs)
			}
		})
	}
}
