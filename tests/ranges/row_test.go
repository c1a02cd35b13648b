package main

import "testing"

func cellOf(bytes int64, flat, twoshot, direct float64) cell {
	c := cell{bytes, map[string]float64{"shm-twoshot": twoshot, "shm-direct": direct}}
	if flat > 0 {
		c.times["shm-flat"] = flat
	}
	return c
}

func TestRowOf(t *testing.T) {
	for name, c := range map[string]struct {
		cells []cell
		want  string
	}{
		"each has its part": {
			[]cell{cellOf(512, 1, 2, 3), cellOf(1024, 2, 2, 2), cellOf(2048, 4, 3, 2.8), cellOf(65536, 90, 40, 30), cellOf(1<<20, 0, 400, 200)},
			"{4, 1 << 10, 2 << 10},",
		},
		"hardly faster is not enough to begin": {
			[]cell{cellOf(512, 3, 2, 1.99), cellOf(65536, 90, 40, 30), cellOf(1<<20, 0, 400, 399)}, "{4, 512, 64 << 10},",
		},
		"never faster": {
			[]cell{cellOf(512, 3, 2, 3), cellOf(65536, 90, 40, 40), cellOf(1<<20, 0, 400, 401)}, "{4, 512, 1 << 20},",
		},
		"a lapse in between": {
			[]cell{cellOf(512, 1, 2, 0.5), cellOf(1024, 3, 2, 3), cellOf(2048, 1, 2, 0.9), cellOf(4096, 2, 1, 0.5)}, "{4, 512, 2 << 10},",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := rowOf(4, c.cells); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
