package bench

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// maxSizes bounds a step that is too small for its span.
const maxSizes = 10_000

// ParseBytes reads a number of bytes as nccl-tests does: K, M and G are powers of 1024. KiB, MiB, GiB and B mean the same
// as in the rest of Weir.
func ParseBytes(text string) (int64, error) {
	number := strings.TrimRight(text, "KMGiB")
	factor, ok := map[string]int64{
		"": 1, "B": 1, "K": 1 << 10, "KiB": 1 << 10, "M": 1 << 20, "MiB": 1 << 20, "G": 1 << 30, "GiB": 1 << 30,
	}[text[len(number):]]
	n, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil || n < 0 || n > math.MaxInt64/factor {
		return 0, fmt.Errorf("%q is not a number of bytes; write 8, 64K, 16MiB or 1G (powers of 1024)", text)
	}
	return n * factor, nil
}

// Sizes are the message sizes from least to most, each the one before times factor or, if factor is 0, plus step.
func Sizes(least, most, factor, step int64) ([]int64, error) {
	switch {
	case least < 1:
		return nil, fmt.Errorf("the smallest message has %d bytes; it needs at least 1", least)
	case most < least:
		return nil, fmt.Errorf("the largest message, %d bytes, is smaller than the smallest, %d bytes", most, least)
	case factor == 1 || factor < 0:
		return nil, fmt.Errorf("a step factor of %d gives no next size; use 2 or more", factor)
	case factor == 0 && step < 1 && least != most:
		return nil, fmt.Errorf("a step of %d bytes gives no next size; use 1 or more", step)
	}
	var sizes []int64
	for n := least; n <= most; {
		if len(sizes) == maxSizes {
			return nil, fmt.Errorf("more than %d sizes from %d to %d bytes; use a larger step", maxSizes, least, most)
		}
		sizes = append(sizes, n)
		switch {
		case factor == 0 && step < 1: // least and most are the same
			return sizes, nil
		case factor > 0 && n > most/factor || factor == 0 && n > most-step:
			return sizes, nil
		case factor > 0:
			n *= factor
		default:
			n += step
		}
	}
	return sizes, nil
}
