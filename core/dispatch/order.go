package dispatch

import (
	"fmt"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
)

// uniform is what a group that asks for determinism asks of a class besides the promises of single backends: that one order of
// addition serves every byte count, or none. Otherwise the bits of a sum would depend on how long the message is that it is part
// of. Without such a group, or where every order gives the same bits, it asks for nothing.
type uniform struct {
	candidates []Candidate
	element    int64 // bytes; 0: it asks for nothing
}

func uniformFor(candidates []Candidate, req backend.Request, opts Options) uniform {
	u := uniform{candidates: candidates}
	if req.Group.Deterministic && !opts.Apart && !req.Class.AnyOrder(req.Group.WorldSize()) {
		u.element = int64(req.Class.DataType.Size())
	}
	return u
}

// order names the order in which a candidate adds. One that names none adds as no other does.
func (u uniform) order(i int) string {
	c := u.candidates[i]
	if o := c.Info.Requirements.Order; o != "" {
		return string(o)
	}
	return fmt.Sprintf("of %s of %s", c.Info.Name, c.Plugin)
}

// whole is the order whose backends are the first in the cascade to serve every byte count together, so that it does not depend on
// whether those behind them have been asked.
func (u uniform) whole(accepted [][]backend.Range) (order string, found bool) {
	for i := range u.candidates {
		if accepted[i] == nil {
			continue
		}
		order := u.order(i)
		own := lo.Map(accepted[:i+1], func(r []backend.Range, k int) []backend.Range { return lo.Ternary(u.order(k) == order, r, nil) })
		if NewTable(own).completeFor(u.element) {
			return order, true
		}
	}
	return "", false
}

// served reports whether nothing is left to ask for.
func (u uniform) served(accepted [][]backend.Range) bool {
	if u.element == 0 {
		return NewTable(accepted).Complete()
	}
	_, found := u.whole(accepted)
	return found
}

// settle declines those that accepted but do not add in the order that serves all. answers and accepted are changed.
func (u uniform) settle(answers []Answer, accepted [][]backend.Range) {
	if u.element == 0 {
		return
	}
	order, found := u.whole(accepted)
	serve := lo.FilterMap(answers, func(a Answer, i int) (string, bool) { return a.Backend, accepted[i] != nil && u.order(i) == order })
	for i := range answers {
		if accepted[i] == nil || found && u.order(i) == order {
			continue
		}
		why := backend.Because(backend.Determinism, "another order of addition", "that of "+strings.Join(serve, " and ")+", in which every size is served")
		if !found {
			own := NewTable([][]backend.Range{accepted[i]}).Ranges(0)
			ranges := lo.Map(own, func(r backend.Range, _ int) string { return r.String() })
			why = backend.Because(backend.Determinism, "one order of addition for "+strings.Join(ranges, ", "), "every size, so that the bits of a sum do not depend on the message's")
		}
		answers[i].Verdict, answers[i].OtherOrder, accepted[i] = backend.Declined(why), true, nil
	}
}
