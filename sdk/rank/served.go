package rank

import (
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
)

// Backend names the backend that runs calls of a class and byte count; "" if none serves them or the class has not been
// decided yet (see Warm). It is the same on every rank.
func (g *Group) Backend(class collective.Class, bytes int64) string {
	if class.Validate() != nil {
		return ""
	}
	t := g.tables[class.Index()].Load()
	if t == nil {
		return ""
	}
	i := t.lookup.Lookup(bytes)
	if i == dispatch.None {
		return ""
	}
	return t.entries[i].backend
}
