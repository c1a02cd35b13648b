package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/samber/lo"
	"github.com/spf13/pflag"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/engine/bench"
	"github.com/weir-project/weir/sdk/rank"
)

func parseBench(t *testing.T, args ...string) (benchFlags, bench.Spec, error) {
	t.Helper()
	var f benchFlags
	fs := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	f.register(fs)
	if err := fs.Parse(args); err != nil {
		return f, bench.Spec{}, err
	}
	f.note(fs)
	spec, err := f.parse()
	return f, spec, err
}

// TestBenchFlags: the short forms are nccl-tests'.
func TestBenchFlags(t *testing.T) {
	f, got, err := parseBench(t, "--ranks", "3", "-b", "1K", "-e", "4KiB", "-f", "2", "-n", "20", "-w", "0", "-c", "2", "-d", "half,int8", "-o", "all",
		"--place", "in", "--config", "weir.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := bench.Spec{
		Sizes: []int64{1 << 10, 2 << 10, 4 << 10}, DataTypes: []collective.DataType{collective.Float16, collective.Int8},
		Ops: collective.Ops(), Iterations: 20, Seconds: 0.1, Check: 2, InPlace: true,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if f.ranks != 3 || f.stepText() != "2(factor)" {
		t.Errorf("%+v", f)
	}
	if _, got, err = parseBench(t, "-b", "8", "-e", "24", "-i", "8", "-d", "all"); err != nil || len(got.Sizes) != 3 || len(got.DataTypes) != collective.NumDataTypes {
		t.Errorf("%+v, %v", got, err)
	}
	f, got, err = parseBench(t, "--sizes", "1M,8, 14K,8")
	if d := cmp.Diff([]int64{8, 14 << 10, 1 << 20}, got.Sizes); d != "" || err != nil || f.stepText() != "listed" {
		t.Errorf("%s, %v, %s", d, err, f.stepText())
	}
}

func TestBenchFlagsThatAreWrong(t *testing.T) {
	for args, want := range map[string]string{
		"--ranks 0":                        "--ranks: 0 ranks",
		"--ranks 1025":                     "--ranks: 1025 ranks; give 1 to 1024",
		"--ranks 2 -e 9223372036854775807": "--maxbytes: 4 buffers of 2305843009213693952 bytes are more than any machine has",
		"--ranks 2 --sizes 1048576G":       "--sizes: 4503599627370496 bytes of memory are needed, and",
		"-w 1000000001":                    "0 to 1000000000",
		"-b 8k":                            `--minbytes: "8k" is not a number of bytes`,
		"-b 16 -e 8":                       "smaller than the smallest",
		"-f 1":                             "step factor of 1",
		"--sizes 8 -e 16":                  "--sizes excludes",
		"--sizes 8,":                       `--sizes: "" is not a number of bytes`,
		"--sizes 0":                        "--sizes: 0 bytes",
		"--sizes 1 -d float":               "no element of float",
		"-i 8 -f 2":                        "--stepbytes and --stepfactor exclude each other",
		"-n -1":                            "0 to 1000000000",
		"-d float8":                        `--datatype: unknown data type "float8", want one of`,
		"-o median":                        `--op: unknown reduce op "median"`,
		"-b 4 -e 4 -d double":              "no element of double fits in 4",
		"--place nowhere":                  `--place: "nowhere", want out, in or both`,
		"--bind socket":                    `--bind: "socket", want none or core`,
		"--seconds 0":                      "--seconds: 0; give more than 0",
		"--plot chart.gif":                 `--plot: "chart.gif" does not end in .svg or .png`,
		"--format xml":                     `unknown format "xml"`,
		"--backend shm --all-backends":     "exclude each other",
		"--seconds NaN":                    "--seconds: NaN",
		"-b 1 -e 1M -i 1":                  "more than 10000 sizes",
		"-d float,":                        `unknown data type ""`,
	} {
		if _, _, err := parseBench(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// TestBenchLines: events arrive in pieces, and what is none is left out.
func TestBenchLines(t *testing.T) {
	var got []int64
	l := &benchLines{take: func(e benchEvent) { got = append(got, e.Cell.Bytes) }}
	var text bytes.Buffer
	for _, n := range []int64{8, 64, 512} {
		if err := json.NewEncoder(&text).Encode(benchEvent{Cell: &bench.Cell{Bytes: n}}); err != nil {
			t.Fatal(err)
		}
	}
	text.WriteString("no event\n{\"Cell\":{\"By")
	for text.Len() > 0 {
		piece := text.Next(7)
		if n, err := l.Write(piece); n != len(piece) || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	if d := cmp.Diff([]int64{8, 64, 512}, got); d != "" {
		t.Error(d)
	}
}

func TestReadMemory(t *testing.T) {
	status := "Name:\tweir\nVmHWM:\t   25000 kB\nVmRSS:\t   24000 kB\nRssAnon:\t    4000 kB\nRssFile:\t 1 kB\n"
	maps := `7f0000000000-7f0000010000 rw-s 00000000 00:01 1034 /memfd:weir-board (deleted)
7f0000100000-7f0000300000 rw-s 00000000 00:01 1035 /memfd:shm-flat (deleted)
7f0000400000-7f0000500000 r--p 00000000 fe:00 77 /usr/lib/libc.so.6
`
	want := bench.Memory{Peak: 25000 << 10, Resident: 24000 << 10, Private: 4000 << 10, Shared: 0x210000}
	if d := cmp.Diff(want, readMemory(status, maps)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(bench.Memory{}, readMemory("", "")); d != "" {
		t.Error(d)
	}
}

// TestProgressOnATerminal: one line, rewritten, and gone at the end.
func TestProgressOnATerminal(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, 2)
	if p.terminal {
		t.Error("a buffer is no terminal")
	}
	p.terminal = true
	for range 2 {
		p.at("8 B of float32 sum")
		p.resume()
		p.pause()
		p.done(1)
	}
	p.end()
	p.resume()
	if s := out.String(); !strings.Contains(s, "\r\x1b[K0 of 2, 8 B of float32 sum") || !strings.HasSuffix(s, "\r\x1b[K") || strings.Contains(s, "\n") {
		t.Errorf("%q", s)
	}
}

func TestProgressElsewhereIsSilentWhenShort(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, 1)
	p.at("8 B")
	p.resume()
	p.done(1)
	p.end()
	if out.Len() > 0 {
		t.Errorf("%q", out.String())
	}
	p.written = p.written.Add(-progressEvery)
	p.at("64 B")
	if s := out.String(); !strings.HasPrefix(s, "weir bench: 1 of 1, 64 B, ") || !strings.HasSuffix(s, "\n") {
		t.Errorf("%q", s)
	}
}

// TestBenchPlacesRanks: what backends are asked about is the group that the ranks will be, with their GPUs and links.
func TestBenchPlacesRanks(t *testing.T) {
	machine := topology.Uniform(2, topology.Link{Class: topology.NVLink, Count: 18}, func(i int) topology.Device {
		return topology.Device{Index: i, UUID: string(rune('a' + i)), Capability: "9.0"}
	})
	for _, c := range []struct {
		device string
		memory collective.Memory
		want   []string
	}{
		{"", collective.CUDA, []string{"a", "b", "a"}},
		{"auto", collective.CUDA, []string{"a", "b", "a"}},
		{"1", collective.CUDA, []string{"b", "b", "b"}},
		{"", collective.Host, []string{"", "", ""}},
	} {
		t.Setenv(rank.EnvDevice, c.device)
		j := &benchJob{engine: &engine{topology: machine}, flags: benchFlags{ranks: 3}, spec: bench.Spec{Memory: c.memory}}
		var got []string
		for _, r := range j.placed() {
			got = append(got, lo.FromPtr(r.Device).UUID)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%q: %s", c.device, d)
		}
	}
}
