package bench

import "time"

// Document is what `weir bench --format json` prints. Names are nccl-tests' where it has them.
type Document struct {
	Version   int       `json:"version"` // of this form
	Weir      string    `json:"weir_version"`
	Start     time.Time `json:"start_time"`
	End       time.Time `json:"end_time"`
	Host      string    `json:"host"`
	CPU       string    `json:"cpu"`
	Cores     int       `json:"cores"`
	Config    Config    `json:"config"`
	Results   []Result  `json:"results"`
	Memory    []RankMem `json:"memory"`
	Refused   []Refusal `json:"refused,omitempty"`
	Wrong     int64     `json:"out_of_bounds"`
	AverageBW float64   `json:"average_bus_bandwidth"` // GB/s
}

// Config is what was asked for.
type Config struct {
	Ranks      int      `json:"ranks"`
	Backend    string   `json:"backend,omitempty"` // pinned
	All        bool     `json:"all_backends,omitempty"`
	Sizes      []int64  `json:"sizes"`
	Types      []string `json:"types"`
	Ops        []string `json:"redops"`
	Iterations int      `json:"iters"`
	Seconds    float64  `json:"seconds"`
	Warmup     int      `json:"warmup_iters"`
	Check      int      `json:"validation"`
	Bind       string   `json:"bind"`
	Memory     string   `json:"memory"`
	Launches   int      `json:"graph_launches,omitempty"`
}

// Result is one size of one backend. Times are µs, bandwidths GB/s.
type Result struct {
	Size       int64   `json:"size"`
	Count      int64   `json:"count"`
	Type       string  `json:"type"`
	Op         string  `json:"redop"`
	Root       int     `json:"root"`
	Backend    string  `json:"backend"`          // that served it; "" if none did
	Pinned     string  `json:"pinned,omitempty"` // the only backend that could have
	OutOfPlace *Timing `json:"out_of_place"`
	InPlace    *Timing `json:"in_place"`
}

// Timing is a Column.
type Timing struct {
	Time       float64   `json:"time"`
	AlgBW      float64   `json:"alg_bw"`
	BusBW      float64   `json:"bus_bw"`
	Wrong      *int64    `json:"nwrong"` // null: not checked
	Min        float64   `json:"time_min"`
	Median     float64   `json:"time_median"`
	P99        float64   `json:"time_p99"`
	Trials     []float64 `json:"trials"`
	Iterations int       `json:"actual_iterations"`
	Block      int       `json:"block"` // calls behind each value of min, median and p99
}

// RankMem is a Memory, of a rank that ran one backend.
type RankMem struct {
	Pinned string `json:"pinned,omitempty"`
	Memory
}

// Refusal is a request class that nobody, or not the pinned backend, serves.
type Refusal struct {
	Pinned string `json:"pinned,omitempty"`
	Type   string `json:"type"`
	Op     string `json:"redop"`
	Why    string `json:"why"`
}

// ResultOf is a cell as JSON.
func ResultOf(c Cell, pinned string, world int) Result {
	return Result{
		Size: c.Bytes, Count: c.Count, Type: c.DataType.String(), Op: c.Op.String(), Root: -1, Backend: c.Backend, Pinned: pinned,
		OutOfPlace: timing(c, c.OutOfPlace, world), InPlace: timing(c, c.InPlace, world),
	}
}

func timing(c Cell, x *Column, world int) *Timing {
	if x == nil {
		return nil
	}
	t := &Timing{
		Time: x.Time, AlgBW: AlgBW(c.Bytes, x.Time), BusBW: BusBW(c.Bytes, x.Time, world),
		Min: x.Min, Median: x.Median, P99: x.P99, Trials: x.Trials, Iterations: x.Iterations, Block: x.Block,
	}
	if x.Wrong >= 0 {
		t.Wrong = &x.Wrong
	}
	return t
}
