package rank

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/samber/lo"
)

// Split parts the group: ranks that give the same color form a new group, in order of key and then of their rank in this
// one. All ranks of the group call it, and wait for one another. A rank that gives a negative color is in none of the new
// groups and gets nil.
func (g *Group) Split(ctx context.Context, color, key int) (*Group, error) {
	mine := binary.LittleEndian.AppendUint64(nil, uint64(color))
	all, err := g.Exchange(ctx, binary.LittleEndian.AppendUint64(mine, uint64(key)))
	if err != nil {
		return nil, fmt.Errorf("split: %w", err)
	}
	type member struct{ rank, key int }
	var members []member
	for r, b := range all {
		if len(b) != 16 {
			return nil, fmt.Errorf("split: rank %d of group %s does something else", r, g.id)
		}
		if int(binary.LittleEndian.Uint64(b)) == color {
			members = append(members, member{g.ranks[r], int(binary.LittleEndian.Uint64(b[8:]))})
		}
	}
	if color < 0 {
		return nil, nil
	}
	slices.SortStableFunc(members, func(a, b member) int { return cmp.Compare(a.key, b.key) })
	part, err := g.session.NewGroup(ctx, lo.Map(members, func(m member, _ int) int { return m.rank }))
	if err != nil {
		return nil, fmt.Errorf("split: %w", err)
	}
	return part, nil
}
