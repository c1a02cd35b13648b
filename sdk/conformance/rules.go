package conformance

import (
	"slices"
	"strings"

	"github.com/weir-project/weir/core/plan"
)

// Rule is one thing that a backend is held to.
type Rule struct {
	Name    string // stable, such as "accept/honest"
	Want    string // what is expected, in a sentence
	Plugin  bool   // about the plugin: looked at once, not for every backend
	Process bool   // it needs the plugin's process
	Runs    bool   // it runs plans, which are the same whatever the connection

	Kinds []plan.Kind // of plans that it is about; nil for all

	last  bool               // after the rules about backends
	check func(*suite) error // nil if the rule is kept; notApplicable if it does not concern the backend
}

// Concerns reports whether the rule is about backends with a kind of plan.
func (r Rule) Concerns(k plan.Kind) bool { return r.Kinds == nil || slices.Contains(r.Kinds, k) }

// Documentation is the page that has a section for every rule.
const Documentation = "docs/authors/testing.md"

// See is where the rule is documented: the anchor is the name without what a heading's anchor does not keep.
func (r Rule) See() string { return Documentation + "#" + strings.ReplaceAll(r.Name, "/", "") }

// The rules that a plugin breaks which cannot be asked anything: it did not come up, or what it says of itself cannot be.
const (
	Handshake   = "process/handshake"
	Description = "info/valid"
)

// Rules are all rules, in the order in which they are looked at.
func Rules() []Rule { return slices.Clone(rules) }

var rules = []Rule{
	{
		Name: Handshake, Plugin: true, Process: true, check: func(*suite) error { return nil }, // else there were no backend
		Want: "the plugin's first line on standard output is go-plugin's handshake, and it describes itself within the deadline",
	},
	{
		Name: "process/health", Plugin: true, Process: true, check: (*suite).healthy,
		Want: "gRPC's health service says that the service `plugin` is SERVING",
	},

	{
		Name: Description, check: (*suite).infoIsValid,
		Want: "name, description and kind can be used, bounds are possible, and they are the same each time",
	},
	{
		Name: "info/requirements", check: (*suite).requirementsAreChecked,
		Want: "some group and class meet all requirements, and each requirement declines what does not meet it",
	},

	{
		Name: "accept/honest", check: (*suite).advertisedIsAccepted,
		Want: "what meets the requirements is accepted, or declined for a reason that requirements cannot say",
	},
	{
		Name: "accept/outside", check: (*suite).outsideIsAnswered,
		Want: "what does not meet the requirements gets an answer, and a decline has the code of a requirement that is not met",
	},
	{
		Name: "accept/pure", check: (*suite).acceptIsPure,
		Want: "the same question gets the same answer, in any order, alone and beside others",
	},
	{
		Name: "accept/unknown-backend", check: (*suite).unknownIsRefused,
		Want: "a call for a backend that the plugin does not offer ends with an error, and the next call is answered",
	},
	{
		Name: "accept/nonsense", check: (*suite).nonsenseIsSurvived,
		Want: "a question that makes no sense, such as one with an unknown data type or no ranks, does no harm to the next one",
	},

	{
		Name: "hypothetical/answers", check: (*suite).hypotheticalIsAnswered,
		Want: "a question about another machine is answered from the facts in it",
	},
	{
		Name: "hypothetical/impossible", check: (*suite).impossibleIsAnswered,
		Want: "a question about a machine with unknown or impossible facts gets a valid answer, the same each time",
	},
	{
		Name: "hypothetical/probes-nothing", Process: true, check: (*suite).hypotheticalProbesNothing,
		Want: "to answer about another machine the plugin opens no device, loads no GPU or communication library and starts no process",
	},

	{
		Name: "plan/valid", check: (*suite).planIsValid,
		Want: "what was accepted has a plan of the advertised kind that is valid, for every number of ranks advertised",
	},
	{
		Name: "plan/proved", Kinds: []plan.Kind{plan.ScheduleKind}, check: (*suite).planIsProved,
		Want: "a schedule is proved: every element holds every rank's part once, no deadlock, no read too early",
	},
	{
		Name: "plan/repeatable", check: (*suite).planIsRepeatable,
		Want: "the same question gets the same plan",
	},
	{
		Name: "plan/serves", Kinds: []plan.Kind{plan.KernelKind}, check: (*suite).planServes,
		Want: "the plan serves every byte count that was accepted",
	},
	{
		Name: "plan/image", Kinds: []plan.Kind{plan.KernelKind}, check: (*suite).imageIsRight,
		Want: "a kernel's image is PTX or ELF and has the functions of the launch table, with as many parameters as the table has arguments",
	},

	{
		Name: "deadline/returns", check: (*suite).doneContextReturns,
		Want: "no call goes on after its context is done",
	},
	{
		Name: "deadline/recovers", check: (*suite).recovers,
		Want: "after calls that were cancelled or came too late the plugin answers as before",
	},

	{
		Name: "results/exact", Runs: true, check: (*suite).resultsAreExact,
		Want: "every type, op and size claimed gives the exact result, in place and out of place, and sources are left alone",
	},
	{
		Name: "results/same-bits", Kinds: []plan.Kind{plan.ScheduleKind, plan.WorkerKind}, Runs: true, check: (*suite).bitsAreTheSame,
		Want: "a backend that promises determinism gives the same bits on every rank and in every run",
	},
	{
		Name: "results/concurrent", Runs: true, check: (*suite).groupsAreIndependent,
		Want: "several groups at once, whose plans are made and released while the others run, give exact results",
	},

	{
		Name: "release/harmless", check: (*suite).releaseIsHarmless,
		Want: "a group can be released twice, or unseen, and be planned again afterwards with the same plan",
	},

	{
		Name: "kernel/leaves", Kinds: []plan.Kind{plan.KernelKind}, Runs: true, check: (*suite).kernelsLeave,
		Want: "kernels whose plan says that they poll the abort word leave when it is set, though a peer is missing",
	},
	{
		Name: "worker/calls", Kinds: []plan.Kind{plan.WorkerKind}, Runs: true, check: (*suite).callsAreAlike,
		Want: "the result is exact at every call, whatever its number, and whatever sizes the calls before it had",
	},
	{
		Name: "worker/attach", Kinds: []plan.Kind{plan.WorkerKind}, Runs: true, check: (*suite).attachIsHonest,
		Want: "Attach has connected when it succeeds, and fails when nobody listens at the socket",
	},
	{
		Name: "worker/disagreement", Kinds: []plan.Kind{plan.WorkerKind}, Runs: true, check: (*suite).disagreementIsLeft,
		Want: "a tile of which ranks say different things is left alone",
	},
	{
		Name: "worker/stops", Kinds: []plan.Kind{plan.WorkerKind}, Runs: true, check: (*suite).workerStops,
		Want: "once the stop word is set the worker closes its connection",
	},

	{
		Name: "process/leak", Process: true, check: (*suite).nothingLeaks,
		Want: "after hundreds of groups the process has no more descriptors, processes and memory than before",
	},
	{
		Name: "process/restart", Plugin: true, Process: true, last: true, check: (*suite).restarts,
		Want: "a plugin that was killed comes up again and gives the same answers",
	},
	{
		Name: "process/orphan", Plugin: true, Process: true, last: true, check: (*suite).orphanEnds,
		Want: "a plugin ends by itself soon after its engine has died: descriptor 3 is at end of file then",
	},
	{
		Name: "process/stdout", Plugin: true, Process: true, last: true, check: (*suite).nothingPrinted,
		Want: "nothing is printed on standard output after the handshake",
	},
}
