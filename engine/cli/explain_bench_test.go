package cli

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// sixteen is what nvidia-smi topo -m prints of a DGX-2: 16 GPUs on NVSwitch, with ten NICs.
func sixteen() string {
	const gpus, nics = 16, 10
	var b strings.Builder
	for i := range gpus {
		fmt.Fprintf(&b, "\tGPU%d", i)
	}
	for i := range nics {
		fmt.Fprintf(&b, "\tNIC%d", i)
	}
	b.WriteString("\tCPU Affinity\tNUMA Affinity\n")
	for a := range gpus {
		fmt.Fprintf(&b, "GPU%d", a)
		for c := range gpus {
			fmt.Fprint(&b, "\t", map[bool]string{true: " X ", false: "NV6"}[a == c])
		}
		fmt.Fprint(&b, strings.Repeat("\tNODE", nics), "\t0-23,48-71\t0\n")
	}
	return b.String()
}

// BenchmarkExplain is from the text that was pasted to the answer, plugins apart.
func BenchmarkExplain(b *testing.B) {
	text := sixteen()
	for _, profile := range []string{"sglang", "vllm"} {
		b.Run(profile, func(b *testing.B) {
			for b.Loop() {
				q := &question{}
				f := pflag.NewFlagSet("explain", pflag.ContinueOnError)
				q.flags(f)
				if err := f.Parse([]string{"--topo", "-", "--capability", "7.0", "--tokens", "1..64", "--hidden", "7168"}); err != nil {
					b.Fatal(err)
				}
				s, err := q.parse()
				if err != nil {
					b.Fatal(err)
				}
				if err := s.readTopology(b.Context(), strings.NewReader(text)); err != nil {
					b.Fatal(err)
				}
				if err := s.complete(); err != nil {
					b.Fatal(err)
				}
				a, err := s.ask(b.Context(), nil, profile)
				if err != nil {
					b.Fatal(err)
				}
				if err := a.Text(io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
