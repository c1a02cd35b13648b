package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/topology"
)

// asked parses a command line as `weir explain` does, up to the facts of the group. Standard input is a matrix.
func asked(t *testing.T, line string) (*subject, error) {
	t.Helper()
	q := &question{}
	f := pflag.NewFlagSet("explain", pflag.ContinueOnError)
	f.String("config", "", "")
	q.flags(f)
	if err := f.Parse(strings.Fields(line)); err != nil {
		return nil, err
	}
	if err := q.checkArgs(f, f.Args()); err != nil {
		return nil, err
	}
	s, err := q.parse()
	if err != nil {
		return nil, err
	}
	if err := s.readTopology(t.Context(), strings.NewReader(cube)); err != nil {
		return nil, err
	}
	return s, s.complete()
}

// cube is half of a cube mesh, numbered from 2 as in a container.
const cube = "\tGPU2\tGPU3\tGPU6\nGPU2\t X \tNV1\tSYS\nGPU3\tNV1\t X \tPHB\nGPU6\tSYS\tPHB\t X \n"

func TestQuestion(t *testing.T) {
	s, err := asked(t, "--topo 8xNVSwitch --devices 7,0 --capability 10.0 --p2p verified --multicast no --dtype half --op max --captured --bytes 14336,1MiB --profile vllm")
	if err != nil {
		t.Fatal(err)
	}
	want := collective.Class{Memory: collective.CUDA, DataType: collective.Float16, Op: collective.Max, Captured: true}
	g := s.group
	if s.class != want || !slices.Equal(s.bytes, []int64{14336, 1 << 20}) || !slices.Equal(s.profiles, []string{"vllm"}) {
		t.Errorf("%v, %v, %v", s.class, s.bytes, s.profiles)
	}
	if g.WorldSize() != 2 || g.Ranks[0].Device.Index != 7 || g.Ranks[1].Device.Index != 0 || g.Ranks[0].Device.Capability != "10.0" ||
		g.P2P != topology.P2PVerified || g.Multicast != topology.No || g.Worst().String() != "NV18" || g.Platform != "" || g.Cores != 0 {
		t.Errorf("group %+v", g)
	}
	if !s.foreign {
		t.Error("the question looks at this machine")
	}
}

func TestQuestionSizes(t *testing.T) {
	for line, want := range map[string][]int64{
		"--topo 8xPCIe":                                                 nil,
		"--topo 8xPCIe --bytes 1MiB,8":                                  {8, 1 << 20},
		"--topo 8xPCIe --tokens 2..4 --hidden 10":                       {40, 60, 80},
		"--topo 8xPCIe --tokens 4,1,2..3,2 --hidden 10 --dtype float32": {40, 80, 120, 160},
		"--topo 8xPCIe --model Kimi-K2.5 --tokens 1,8":                  {14336, 114688},
		"--topo 8xPCIe --model kimi-k2.5":                               {14336, 28672, 57344, 114688, 229376, 458752, 917504},
	} {
		s, err := asked(t, line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		var got []int64
		for _, n := range s.sizes() {
			got = append(got, n.Bytes)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

func TestQuestionGroups(t *testing.T) {
	for line, want := range map[string]struct {
		devices  []int
		ranks    int
		worst    string
		p2p      topology.P2P
		answered topology.Answer // multicast
	}{
		"--topo -":                              {[]int{2, 3, 6}, 3, "SYS", topology.P2PUnknown, topology.No},
		"--topo - --devices 3,2":                {[]int{3, 2}, 2, "NV1", topology.P2PReported, topology.No}, // NVLink implies access
		"--topo - --devices 6,3":                {[]int{6, 3}, 2, "PHB", topology.P2PUnknown, topology.No},
		"--topo - --ranks 2":                    {[]int{2, 3}, 2, "NV1", topology.P2PReported, topology.No},
		"--topo - --ranks 2 --p2p none":         {[]int{2, 3}, 2, "NV1", topology.P2PNone, topology.No},
		"--topo 8xNVSwitch":                     {[]int{0, 1, 2, 3, 4, 5, 6, 7}, 8, "NV18", topology.P2PReported, topology.Yes},
		"--topo 8xNVSwitch --hosts 2":           {[]int{0, 1, 2, 3, 4, 5, 6, 7}, 16, "unknown", topology.P2PUnknown, topology.NotKnown},
		"--topo 8xNVSwitch --hosts 2 --ranks 4": {[]int{0, 1}, 4, "unknown", topology.P2PUnknown, topology.NotKnown},
		"--topo 8xPCIe":                         {[]int{0, 1, 2, 3, 4, 5, 6, 7}, 8, "SYS", topology.P2PUnknown, topology.No},
		"--topo 8xPCIe --memory host --ranks 9": {nil, 9, "HOST", topology.P2PUnknown, topology.NotKnown},
		"--topo 8xPCIe --memory host":           {nil, 8, "HOST", topology.P2PUnknown, topology.NotKnown},
	} {
		s, err := asked(t, line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		var devices []int
		for _, p := range s.positions {
			devices = append(devices, s.machine.Devices[p].Index)
		}
		g := s.group
		if !slices.Equal(devices, want.devices) || g.WorldSize() != want.ranks || g.Worst().String() != want.worst || g.P2P != want.p2p || g.Multicast != want.answered {
			t.Errorf("%s: GPUs %v, %d ranks, worst %s, P2P %s, multicast %s", line, devices, g.WorldSize(), g.Worst(), g.P2P, g.Multicast)
		}
		if g.Platform != "" || !s.foreign {
			t.Errorf("%s: a fact of this machine is in the group of another: %q", line, g.Platform)
		}
	}
}

// TestQuestionsThatCannotBe holds that each says what is wrong and what to do.
func TestQuestionsThatCannotBe(t *testing.T) {
	prose := filepath.Join(t.TempDir(), "prose.txt")
	if err := os.WriteFile(prose, []byte("no matrix here\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, words := range map[string]string{
		"--memory tape":                             `--memory: unknown memory kind "tape"`,
		"--dtype float3":                            `--dtype: unknown data type "float3"`,
		"--op add":                                  `--op: unknown reduce op "add"`,
		"--memory host --captured":                  "host memory cannot be captured",
		"--memory host --p2p none":                  "--memory host and --p2p do not go together",
		"--ranks -1":                                "--ranks: -1 ranks; give 1 to 1024",
		"--ranks 1025":                              "--ranks: 1025 ranks; give 1 to 1024",
		"--ranks 1000000000":                        "--ranks: 1000000000 ranks; give 1 to 1024",
		"--topo 8xH200 --hosts 10000000":            "--hosts: 10000000 hosts; give 1 to 1024: a group has at most 1024 ranks",
		"--topo 8xH200 --hosts 129":                 "--hosts: 129 hosts with 8 GPUs each make 1032 ranks, a group has at most 1024; give at most --hosts 128",
		"--hidden 9223372036854775807 --tokens 8":   "--hidden: 9223372036854775807 elements; give 1 to 16777216",
		"--ranks 0":                                 `--ranks: "0" is nothing`,
		"--hosts 0":                                 "--hosts: 0 hosts",
		"--format xml":                              `--format: unknown format "xml"`,
		"--bytes parsec":                            "--bytes: ",
		"--bytes 8,0":                               "--bytes: a message has at least 1 byte",
		"--bytes 8 --tokens 1":                      "--bytes and --tokens say the same in two ways",
		"--bytes 8 --model kimi-k2.5":               "--bytes and --model",
		"--hidden 8 --model kimi-k2.5":              "--hidden and --model",
		"--tokens 1":                                "give --hidden or --model too",
		"--tokens 0 --hidden 8":                     `--tokens: "0"`,
		"--tokens 4..1 --hidden 8":                  `--tokens: "4..1", want`,
		"--tokens 1.. --hidden 8":                   `--tokens: "1..", want`,
		"--tokens one --hidden 8":                   `--tokens: "one", want`,
		"--tokens 1..5000 --hidden 8":               "more than 4096 sizes",
		"--tokens 1 --hidden -8":                    "--hidden: -8 elements",
		"--model gpt-2":                             `unknown model "gpt-2"; give --hidden, or one of deepseek-r1`,
		"--profile trt":                             `--profile: unknown profile "trt", want one of weir, sglang, vllm`,
		"--compare sglang":                          "name at least two of weir, sglang, vllm",
		"--compare sglang,trt":                      `--compare: unknown profile "trt"`,
		"--compare vllm,vllm":                       "vllm stands twice",
		"--compare vllm,weir --profile vllm":        "--profile and --compare",
		"--enable custom":                           "give --profile sglang or vllm too",
		"--capability 9":                            `--capability: "9" is no compute capability; give one such as 9.0`,
		"--capability sm_90":                        `"sm_90" is no compute capability`,
		"--p2p maybe":                               `--p2p: "maybe", want one of none, reported, verified`,
		"--multicast maybe":                         `--multicast: "maybe", want one of yes, no`,
		"--machine 2":                               "give --topo too",
		"--topo - --machine 2":                      "--machine: standard input holds 1, there is no number 2",
		"--topo 8xPCIe --devices 0,8":               "--devices: there is no GPU8 in the topology; it has 0, 1, 2, 3, 4, 5, 6, 7",
		"--topo - --devices 0":                      "--devices: there is no GPU0 in the topology; it has 2, 3, 6",
		"--topo 8xPCIe --devices 1,1":               "--devices: 1 stands twice",
		"--topo 8xPCIe --devices GPU0":              `--devices: "GPU0" is not a number of the matrix; give numbers, such as 0,1,4,5`,
		"--topo 8xPCIe --devices 0,":                `--devices: "" is not a number`,
		"--topo 8xPCIe --devices -1":                `--devices: "-1" is not a number`,
		"--topo 8xPCIe --devices=":                  `--devices: "" is nothing`,
		"--topo 8xPCIe --devices 0,1 --ranks 3":     "--ranks 3 and 2 devices on 1 hosts do not go together",
		"--topo 8xPCIe --ranks 9":                   "the topology has 8 GPUs, not 9; for more give --hosts",
		"--topo 8xPCIe --ranks 3 --hosts 2":         "--ranks 3 cannot be divided evenly over 2 hosts",
		"--topo 9xPCIe":                             "there is no file 9xPCIe, and unknown topology",
		"--topo " + prose:                           prose + ": line 1, column 1: ",
		"8xPCIe":                                    `unexpected argument "8xPCIe"; a topology is given with --topo`,
		"--diff old.json":                           "weir explain --diff OLD.json NEW.json",
		"--diff old.json new.json --topo 8xPCIe":    "--diff and --topo do not go together",
		"--trace t.jsonl --ranks 2":                 "--trace and --ranks do not go together",
		"--trace t.jsonl other":                     `unexpected argument "other"`,
		"--trace=":                                  "--trace: the name of the file is empty",
		"--topo 8xPCIe --devices 0,1 --memory host": "--memory host and --devices",
		"--topo 8xNVSwitch --capability 12.0 --p2p none --ranks -": "invalid argument",
	} {
		if _, err := asked(t, line); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s\n  error %v\n  want one with %q", line, err, words)
		}
	}
}

func TestPresetsCanAllBeExplained(t *testing.T) {
	for _, preset := range topology.Presets() {
		name := preset.Name
		s, err := asked(t, "--topo "+name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, profile := range []string{"sglang", "vllm"} {
			a, err := s.ask(t.Context(), nil, profile)
			if err != nil || a.Unserved() {
				t.Errorf("%s, %s: %v", name, profile, err)
			}
		}
		for _, d := range s.machine.Devices {
			if d.Vendor == "" {
				t.Errorf("%s: whose GPUs are they?", name)
			}
		}
	}
}

// TestDividedGPUs: `nvidia-smi -L` shows that MIG is on, the matrix does not.
func TestDividedGPUs(t *testing.T) {
	paste := filepath.Join(t.TempDir(), "paste.txt")
	text := "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV12\t0-23\t0\nGPU1\tNV12\t X \t0-23\t0\n\n" +
		"GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)\n" +
		"  MIG 1g.5gb      Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)\n" +
		"GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-6d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)\n"
	if err := os.WriteFile(paste, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]topology.P2P{"": topology.P2PNone, " --p2p reported": topology.P2PReported} {
		s, err := asked(t, "--topo "+paste+line)
		if err != nil {
			t.Fatal(err)
		}
		if s.group.P2P != want || s.group.Ranks[0].Device.Capability != "8.0" || !s.divided() {
			t.Errorf("%q: P2P %s, capability %q, divided %v", line, s.group.P2P, s.group.Ranks[0].Device.Capability, s.divided())
		}
	}
}
