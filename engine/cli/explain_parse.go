package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/engine/config"
	"github.com/weir-project/weir/engine/profiles"
)

func (q *question) parseProfiles(s *subject) error {
	s.profiles = []string{q.profile}
	flag := "profile"
	if q.compare != nil {
		s.profiles, flag = q.compare, "compare"
		if len(q.compare) < 2 {
			return fmt.Errorf("--compare: name at least two of %s", strings.Join(profileNames(), ", "))
		}
	}
	for i, name := range s.profiles {
		if !slices.Contains(profileNames(), name) {
			return fmt.Errorf("--%s: unknown profile %q, want one of %s", flag, name, strings.Join(profileNames(), ", "))
		}
		if slices.Contains(s.profiles[:i], name) {
			return fmt.Errorf("--%s: %s stands twice", flag, name)
		}
	}
	if len(q.enable) > 0 && slices.Equal(s.profiles, []string{weirProfile}) {
		return fmt.Errorf("--enable is for backends of another engine; give --profile %s too (plugins are named in the configuration)", strings.Join(profiles.Names(), " or "))
	}
	return nil
}

func (q *question) parseDevices(s *subject) error {
	if q.devices == "" {
		return nil
	}
	for part := range strings.SplitSeq(q.devices, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		switch {
		case err != nil || n < 0:
			return fmt.Errorf("--devices: %q is not a number of the matrix; give numbers, such as 0,1,4,5 for GPU0, GPU1, GPU4 and GPU5", part)
		case slices.Contains(s.devices, n):
			return fmt.Errorf("--devices: %d stands twice; each rank has a GPU of its own", n)
		}
		s.devices = append(s.devices, n)
	}
	return nil
}

const (
	maxSizes  = 4096    // message sizes that may be asked about
	maxHidden = 1 << 24 // elements of a token
)

func (q *question) parseSizes(s *subject) error {
	if len(q.sizes) > maxSizes {
		return fmt.Errorf("--bytes: more than %d sizes; name fewer", maxSizes)
	}
	for _, text := range q.sizes {
		var size config.Size
		if err := size.Set(text); err != nil {
			return fmt.Errorf("--bytes: %w", err)
		}
		if size < 1 {
			return fmt.Errorf("--bytes: a message has at least 1 byte, not %d", size)
		}
		s.bytes = append(s.bytes, int64(size))
	}
	if q.hidden < 0 || q.hidden > maxHidden {
		return fmt.Errorf("--hidden: %d elements; give 1 to %d", q.hidden, maxHidden)
	}
	s.hidden = q.hidden
	if q.model != "" {
		m, err := profiles.FindModel(q.model)
		if err != nil {
			return fmt.Errorf("--model: %w", err)
		}
		s.model, s.hidden = &m, m.Hidden
	}
	tokens := q.tokens
	if tokens == "" && s.model != nil {
		tokens = "1,2,4,8,16,32,64"
	}
	if tokens == "" {
		return nil
	}
	if s.hidden == 0 {
		return errors.New("--tokens needs the bytes of a token: give --hidden or --model too")
	}
	var err error
	s.tokens, err = parseTokens(tokens)
	return err
}

// parseTokens reads "1..64" or "1,8,64".
func parseTokens(text string) ([]int, error) {
	var all []int
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "..")
		a, err := strconv.Atoi(first)
		b := a
		if isRange && err == nil {
			b, err = strconv.Atoi(last)
		}
		const most = 1 << 24
		if err != nil || a < 1 || b < a || b > most {
			return nil, fmt.Errorf("--tokens: %q, want numbers from 1 to %d such as 1..64 or 1,8,64", part, most)
		}
		if len(all)+b-a >= maxSizes {
			return nil, fmt.Errorf("--tokens: more than %d sizes; name fewer", maxSizes)
		}
		all = append(all, lo.RangeFrom(a, b-a+1)...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}
