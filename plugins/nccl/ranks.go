package main

import (
	"fmt"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/native/nccl"
)

// ownCopy is the library that ranks of the group loaded themselves, which is preferred to any other, also to the settings': two in
// one process do not get on. It is zero if none has, or if the settings name another library than NCCL. The verdict is Accept
// unless the copies cannot work together.
func (l *library) ownCopy(g collective.Group) (collective.Library, backend.Verdict) {
	accept := backend.Accepted(backend.AllBytes()...)
	if l.settings.Variant != "nccl" && l.settings.Variant != "nccl-symm" {
		return collective.Library{}, accept
	}
	var own collective.Library
	first := backend.AnyRank
	for rank, r := range g.Ranks {
		if reason := twoCopies(rank, r.Libraries); reason != nil {
			return own, backend.Declined(*reason)
		}
		copy, found := lo.Find(r.Libraries, func(lib collective.Library) bool { return lib.Name == "nccl" })
		switch {
		case !found:
			continue
		case tooOld(copy.Version):
			return own, backend.Declined(backend.Reason{
				Code: backend.Version, Rank: rank, Observed: "nccl " + copy.Version, Required: nccl.OldestVersion + " or newer", Text: copy.Path,
			})
		case first == backend.AnyRank:
			own, first = copy, rank
		case copy.Version == own.Version && (copy.Version != "" || copy.Path == own.Path):
		case copy.Version == "" || own.Version == "":
			return own, backend.Verdict{Kind: backend.Unknown, Reasons: []backend.Reason{{
				Code: backend.ProbeUnavailable, Rank: lo.Ternary(copy.Version == "", rank, first),
				Observed: "version of the rank's nccl unknown", Required: "one version in all ranks",
			}}}
		default:
			return own, backend.Declined(backend.Reason{
				Code: backend.Version, Rank: rank, Observed: "nccl " + copy.Version,
				Required: fmt.Sprintf("%s as on rank %d", own.Version, first), Text: copy.Path,
			})
		}
	}
	return own, accept
}

// twoCopies is why a rank that has loaded NCCL twice, in different versions, cannot be served.
func twoCopies(rank int, loaded []collective.Library) *backend.Reason {
	copies := lo.Filter(loaded, func(lib collective.Library, _ int) bool { return lib.Name == "nccl" })
	for _, c := range copies {
		if c.Version != copies[0].Version {
			return &backend.Reason{
				Code: backend.Version, Rank: rank, Observed: fmt.Sprintf("nccl %s and %s in one process", copies[0].Version, c.Version), Required: "one copy",
				Text: copies[0].Path + ", " + c.Path,
			}
		}
	}
	return nil
}

func tooOld(version string) bool {
	return version != "" && backend.CompareVersions(version, nccl.OldestVersion) < 0
}
