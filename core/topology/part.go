package topology

import "strings"

// parts are compute capabilities (NVIDIA's list, developer.nvidia.com/cuda-gpus) and AMD's architectures (ROCm's
// compatibility matrix) by a word of the part's name.
var parts = map[string]string{
	"K80": "3.7", "P100": "6.0", "P40": "6.1", "P4": "6.1",
	"V100": "7.0", "V100S": "7.0", "T4": "7.5",
	"A100": "8.0", "A800": "8.0", "A30": "8.0",
	"A2": "8.6", "A10": "8.6", "A10G": "8.6", "A16": "8.6", "A40": "8.6", "A2000": "8.6", "A4000": "8.6", "A5000": "8.6", "A6000": "8.6",
	"L4": "8.9", "L20": "8.9", "L40": "8.9", "L40S": "8.9", "Ada": "8.9",
	"H20": "9.0", "H100": "9.0", "H200": "9.0", "H800": "9.0", "GH200": "9.0",
	"B100": "10.0", "B200": "10.0", "GB200": "10.0", "B300": "10.3", "GB300": "10.3", "GB10": "12.1", "PRO": "12.0",
	"MI100": "gfx908", "MI210": "gfx90a", "MI250": "gfx90a", "MI250X": "gfx90a", "MI300A": "gfx942", "MI300X": "gfx942", "MI308X": "gfx942",
	"MI325X": "gfx942", "MI350X": "gfx950", "MI355X": "gfx950",
}

// geforce are the capabilities of consumer cards, by the first two digits of the model number.
var geforce = map[string]string{"10": "6.1", "16": "7.5", "20": "7.5", "30": "8.6", "40": "8.9", "50": "12.0"}

// drivers are the branches of NVIDIA's driver that came with the first CUDA toolkit to support a compute capability
// (release notes of the toolkits 9.0, 10.0, 11.0, 11.1, 11.8, 12.8, 12.9 and 13.0).
var drivers = map[string]string{
	"7.0": "384", "7.2": "384", "7.5": "410", "8.0": "450", "8.6": "455", "8.7": "470", "8.9": "520", "9.0": "520",
	"10.0": "570", "12.0": "570", "10.3": "575", "12.1": "575", "11.0": "580",
}

// OldestDriver is the oldest driver that a GPU of a compute capability runs with, such as "520"; "" if that is not known.
func OldestDriver(capability string) string { return drivers[capability] }

// CapabilityOf is the compute capability of a part by its name, such as "NVIDIA H100 80GB HBM3"; "" for a name that is
// not known.
func CapabilityOf(name string) string {
	words := strings.FieldsFunc(name, func(r rune) bool { return r == ' ' || r == '-' || r == '_' || r == '/' })
	for _, w := range words {
		if c, ok := parts[w]; ok && (w != "PRO" || strings.Contains(name, "RTX PRO")) {
			return c
		}
	}
	if !strings.Contains(name, "RTX") && !strings.Contains(name, "GTX") {
		return ""
	}
	for _, w := range words {
		if len(w) >= 4 && strings.Trim(w[:4], "0123456789") == "" && !strings.HasSuffix(w, "000") {
			return geforce[w[:2]]
		}
	}
	return ""
}

// VendorOf is the maker of a part by its name; "" if the name does not say.
func VendorOf(name string) string {
	for word, vendor := range map[string]string{"NVIDIA": "nvidia", "GeForce": "nvidia", "Tesla": "nvidia", "AMD": "amd", "Instinct": "amd", "Ascend": "huawei"} {
		if strings.Contains(name, word) {
			return vendor
		}
	}
	return ""
}
