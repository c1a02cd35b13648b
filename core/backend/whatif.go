package backend

import (
	"fmt"
	"slices"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/topology"
)

// WouldAccept says what would have to be different for the requirements to accept a request that they do not: phrases
// that complete "would accept if", all of which are needed together. It is empty if they accept, and if no change of
// the facts helps. What it says is tried: the requirements accept the request so changed.
func (q Requirements) WouldAccept(req Request) []string {
	v := q.Check(req)
	if v.Kind == Accept {
		return nil
	}
	changed := copyRequest(req)
	var phrases []string
	for _, try := range []func(Requirements, *Request) string{
		changeMemory, changeCall, changePlatform, changeHosts, changeNodes, changeLinks, changeP2P, changeMulticast, changeDevices, changeLibraries, changePromises,
	} {
		if phrase := try(q, &changed); phrase != "" {
			phrases = append(phrases, phrase)
		}
	}
	if phrase := changeRanks(q, &changed); phrase != "" {
		phrases = append(phrases, phrase)
	}
	if q.Check(changed).Kind != Accept {
		return nil
	}
	return phrases
}

// lacks reports whether a reason with one of the codes stands in the way, or one that is unknown about the words.
func lacks(q Requirements, req *Request, unknown string, codes ...Code) bool {
	return slices.ContainsFunc(q.reasons(*req), func(r Reason) bool {
		return slices.Contains(codes, r.Code) || unknown != "" && r.Code == ProbeUnavailable && strings.HasPrefix(r.Observed, unknown)
	})
}

// reasons are those of Check, unknown or unmet.
func (q Requirements) reasons(req Request) []Reason {
	c := q.check(req)
	return append(slices.Clone(c.unmet), c.unknown...)
}

func copyRequest(req Request) Request {
	req.Group.Ranks = slices.Clone(req.Group.Ranks)
	for i, r := range req.Group.Ranks {
		if r.Device != nil {
			d := *r.Device
			req.Group.Ranks[i].Device = &d
		}
	}
	return req
}

// eachDevice changes every rank's GPU; a rank without one gets one.
func eachDevice(req *Request, change func(*topology.Device)) {
	for i := range req.Group.Ranks {
		if req.Group.Ranks[i].Device == nil {
			req.Group.Ranks[i].Device = &topology.Device{Index: i}
		}
		change(req.Group.Ranks[i].Device)
	}
}

// example is a capability that matches one as Requirements spells it.
func example(wanted string) string {
	return strings.Replace(strings.TrimRight(wanted, "+-"), ".x", ".0", 1)
}

// orList writes "a", "a or b", "a, b or c".
func orList[T any](all []T) string {
	words := lo.Map(all, func(v T, _ int) string { return fmt.Sprint(v) })
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
