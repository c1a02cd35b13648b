package topology

import "slices"

// cliqueSteps bounds the search for groups: machines need a few hundred, made-up matrices any number.
const cliqueSteps = 20000

// Groups are disjoint sets of two or more devices, by position, in which every pair is connected by a link of the
// class, in both directions: the largest first, of equals the one with the lowest positions; then sorted by their first
// member. A set that a pair of unknown links might extend is left out.
func Groups(links [][]Link, class Class) [][]int {
	var groups [][]int
	free := make([]int, len(links))
	for i := range free {
		free[i] = i
	}
	steps := 0
	for {
		c := clique{steps: steps, joined: func(a, b int) bool { return at(links, a, b).Class == class && at(links, b, a).Class == class }}
		c.grow(nil, free)
		if steps = c.steps; len(c.best) < 2 {
			break
		}
		if !extensible(links, c.best, class) {
			groups = append(groups, c.best)
		}
		free = slices.DeleteFunc(free, func(d int) bool { return slices.Contains(c.best, d) })
	}
	slices.SortFunc(groups, func(a, b []int) int { return a[0] - b[0] })
	return groups
}

// extensible reports whether a device outside might belong to the set, for all that is known.
func extensible(links [][]Link, set []int, class Class) bool {
	for d := range links {
		if slices.Contains(set, d) {
			continue
		}
		might, known := true, true
		for _, m := range set {
			for _, l := range []Link{at(links, d, m), at(links, m, d)} {
				known = known && l.Class != Unknown
				might = might && (l.Class == class || l.Class == Unknown)
			}
		}
		if might && !known {
			return true
		}
	}
	return false
}

// clique is a search for a largest set in which every two are joined.
type clique struct {
	joined func(a, b int) bool
	best   []int
	steps  int
}

// grow tries to extend a set by the candidates, each of which is joined to all of it.
func (c *clique) grow(set, candidates []int) {
	if c.steps++; len(set) > len(c.best) {
		c.best = slices.Clone(set)
	}
	for i, d := range candidates {
		if len(set)+len(candidates)-i <= len(c.best) || c.steps > cliqueSteps {
			return
		}
		var rest []int
		for _, e := range candidates[i+1:] {
			if c.joined(d, e) {
				rest = append(rest, e)
			}
		}
		c.grow(append(set, d), rest)
	}
}
