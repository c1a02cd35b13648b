package conformance

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
)

// planServes: a byte count that was accepted and has no row would fail in a rank.
func (s *suite) planServes() error {
	return s.eachPlan(func(req backend.Request, p plan.Plan, ranges []backend.Range) error {
		for _, r := range ranges {
			if n, missing := uncovered(p.(*plan.Kernel), req.Class.DataType, r); missing {
				return fmt.Errorf("accepted are %s, but no row of the launch table is for %s of %d bytes", r, req.Class.DataType, n)
			}
		}
		return nil
	})
}

// uncovered is the first byte count of a range, in whole elements, that no row serves.
func uncovered(k *plan.Kernel, dt collective.DataType, r backend.Range) (bytes int64, missing bool) {
	r, ok := r.Intersect(backend.Range{Min: 1, Max: backend.NoLimit, Multiple: int64(dt.Size())})
	if !ok {
		return 0, false
	}
	step := max(r.Multiple, 1)
	for n := (r.Min + step - 1) / step * step; n <= r.Max; {
		row, found := lo.Find(k.Launches, func(l plan.Launch) bool { return l.DataType == dt.String() && l.Min <= n && n <= l.Max })
		if !found {
			return n, true
		}
		if row.Max > backend.NoLimit-step {
			return 0, false
		}
		n = (row.Max/step + 1) * step
	}
	return 0, false
}

// imageIsRight is what can be seen of an image without a GPU.
func (s *suite) imageIsRight() error {
	looked := map[string]bool{}
	return s.eachPlan(func(_ backend.Request, p plan.Plan, _ []backend.Range) error {
		k := p.(*plan.Kernel)
		if key := k.Key(); looked[key] {
			return nil
		} else {
			looked[key] = true
		}
		return checkImage(k)
	})
}

const fatbinMagic = 0xba55ed50

func checkImage(k *plan.Kernel) error {
	switch {
	case bytes.HasPrefix(k.Image, []byte(elf.ELFMAG)):
		return checkELF(k)
	case len(k.Image) >= 4 && binary.LittleEndian.Uint32(k.Image) == fatbinMagic:
		return nil // a container, whose contents are compressed
	}
	return checkPTX(k)
}

func checkELF(k *plan.Kernel) error {
	f, err := elf.NewFile(bytes.NewReader(k.Image))
	if err != nil {
		return fmt.Errorf("the image begins as ELF and is not: %w", err)
	}
	symbols, err := f.Symbols()
	dynamic, errDynamic := f.DynamicSymbols()
	if err != nil && errDynamic != nil {
		return fmt.Errorf("the image's symbols: %w", err)
	}
	for _, l := range k.Launches {
		if !slices.ContainsFunc(append(symbols, dynamic...), func(s elf.Symbol) bool { return s.Name == l.Function }) {
			return fmt.Errorf("the image has no function %s, which the launch table names", l.Function)
		}
	}
	return nil
}

func checkPTX(k *plan.Kernel) error {
	text := string(k.Image)
	for _, directive := range []string{".version", ".target", ".address_size"} {
		if !strings.Contains(text, directive) {
			return fmt.Errorf("the image is neither ELF nor PTX: it begins with %q and has no %s", k.Image[:min(len(k.Image), 16)], directive)
		}
	}
	for _, l := range k.Launches {
		sizes, err := parameters(text, l.Function)
		if err != nil {
			return err
		}
		if err := matches(l, sizes); err != nil {
			return fmt.Errorf("function %s: %w", l.Function, err)
		}
	}
	return nil
}

// parameters are the types of an entry's parameters: "32" or "64" for a number or pointer, "struct" for one that is bytes.
func parameters(ptx, function string) ([]string, error) {
	at := -1
	for rest := 0; ; {
		i := strings.Index(ptx[rest:], ".entry")
		if i < 0 {
			return nil, fmt.Errorf("the image has no function %s, which the launch table names", function)
		}
		rest += i + len(".entry")
		name, _, _ := strings.Cut(strings.TrimSpace(ptx[rest:min(len(ptx), rest+len(function)+64)]), "(")
		if strings.TrimSpace(name) == function {
			at = rest + strings.Index(ptx[rest:], "(")
			break
		}
	}
	list, _, closed := strings.Cut(ptx[at+1:], ")")
	if !closed {
		return nil, errors.New("the image ends within the parameters of " + function)
	}
	var sizes []string
	for _, p := range strings.Split(list, ",") {
		fields := strings.Fields(p)
		if len(fields) < 2 || fields[0] != ".param" {
			continue
		}
		if strings.Contains(p, "[") {
			sizes = append(sizes, "struct")
		} else {
			sizes = append(sizes, strings.TrimLeft(fields[1], ".subf"))
		}
	}
	return sizes, nil
}

func matches(l plan.Launch, sizes []string) error {
	want := []string{"struct"} // weir_call by value
	if len(l.Arguments) > 0 {
		narrow := []plan.Argument{plan.ArgRank, plan.ArgWorld, plan.ArgHash, plan.ArgID}
		want = lo.Map(l.Arguments, func(a plan.Argument, _ int) string { return lo.Ternary(slices.Contains(narrow, a), "32", "64") })
	}
	if !slices.Equal(want, sizes) {
		return fmt.Errorf("it takes parameters of [%s] bits, the launch table gives [%s]", strings.Join(sizes, " "), strings.Join(want, " "))
	}
	return nil
}
