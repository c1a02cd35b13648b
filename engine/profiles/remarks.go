package profiles

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
)

// Remarks are what is to be said of an answer beside its reasons, in the profile's order.
func (p *Profile) Remarks(name string, v backend.Verdict, g collective.Group) []string {
	b, ok := lo.Find(p.Backends, func(b *Backend) bool { return b.Name == name })
	if !ok {
		return nil
	}
	return lo.FilterMap(b.Remarks, func(r remark, _ int) (string, bool) { return r.Text, r.holds(v, g) })
}

// remark is a sentence for the answers that its keys match; keys that are not set match all.
type remark struct {
	Verdict      backend.Kind
	Codes        []backend.Code // one of the reasons' codes
	Ranks        span
	Hosts        span
	Capabilities []string // as in Requirements; "unknown" is that of GPUs whose capability is not known
	P2P          []string // what is known of peer-to-peer access: unknown, none, reported, verified
	Multicast    []string // unknown, yes, no
	Text         string
}

// holds reports whether a remark is to be made. Of a backend for another vendor's GPUs there is nothing to say.
func (r remark) holds(v backend.Verdict, g collective.Group) bool {
	if slices.ContainsFunc(v.Reasons, func(x backend.Reason) bool { return x.Code == backend.Platform }) {
		return false
	}
	code := len(r.Codes) == 0 || slices.ContainsFunc(v.Reasons, func(x backend.Reason) bool { return slices.Contains(r.Codes, x.Code) })
	arch := len(r.Capabilities) == 0 || lo.EveryBy(g.Ranks, func(x collective.Rank) bool {
		return x.Device != nil && backend.HasCapability(r.Capabilities, cmp.Or(x.Device.Capability, "unknown"))
	})
	in := func(list []string, s string) bool { return len(list) == 0 || slices.Contains(list, s) }
	return code && arch && cmp.Or(r.Verdict, v.Kind) == v.Kind && r.Ranks.contains(g.WorldSize()) && r.Hosts.contains(g.Hosts()) &&
		in(r.P2P, g.P2P.String()) && in(r.Multicast, g.Multicast.String())
}

func (r remark) validate() error {
	if r.Text == "" {
		return fmt.Errorf("a remark without a text")
	}
	for _, c := range r.Codes {
		if c.Meaning() == "" {
			return fmt.Errorf("a remark on the code %q, which does not exist", c)
		}
	}
	return nil
}
