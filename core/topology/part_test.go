package topology_test

import (
	"testing"

	"github.com/weir-project/weir/core/topology"
)

func TestPartsByName(t *testing.T) {
	for name, want := range map[string][2]string{ // capability, vendor
		"NVIDIA H100 80GB HBM3":          {"9.0", "nvidia"},
		"NVIDIA A100-SXM4-80GB":          {"8.0", "nvidia"},
		"Tesla V100-SXM2-32GB":           {"7.0", "nvidia"},
		"NVIDIA A10G":                    {"8.6", "nvidia"},
		"NVIDIA L40S":                    {"8.9", "nvidia"},
		"NVIDIA RTX 6000 Ada Generation": {"8.9", "nvidia"},
		"NVIDIA RTX A6000":               {"8.6", "nvidia"},
		"NVIDIA RTX PRO 6000 Blackwell Workstation Edition": {"12.0", "nvidia"},
		"NVIDIA GeForce RTX 5090":                           {"12.0", "nvidia"},
		"NVIDIA GeForce RTX 4090":                           {"8.9", "nvidia"},
		"GeForce RTX 2080 Ti":                               {"7.5", "nvidia"},
		"NVIDIA GeForce RTX 4070 Ti SUPER":                  {"8.9", "nvidia"},
		"NVIDIA B200":                                       {"10.0", "nvidia"},
		"NVIDIA B300 SXM6 AC":                               {"10.3", "nvidia"},
		"AMD Instinct MI300X":                               {"gfx942", "amd"},
		"AMD Instinct MI250X/MI250":                         {"gfx90a", "amd"},
		"Ascend 910B":                                       {"", "huawei"},
		"Quadro RTX 8000":                                   {"", ""},
		"NVIDIA Graphics Device":                            {"", "nvidia"},
		"":                                                  {"", ""},
	} {
		if got := [2]string{topology.CapabilityOf(name), topology.VendorOf(name)}; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
