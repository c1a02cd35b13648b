package diagnose_test

import (
	"strings"
	"testing"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/diagnose"
)

// TestDoctor names what is in the way of peer-to-peer access, with the command or parameter that takes it away.
func TestDoctor(t *testing.T) {
	bad := diagnose.Tried{Verified: 54, Failed: 2}
	for name, c := range map[string]struct {
		tried     diagnose.Tried
		obstacles diagnose.Obstacles
		codes     string
		words     []string
	}{
		"all is well":            {diagnose.Tried{Verified: 56}, diagnose.Obstacles{IOMMU: diagnose.PassThrough}, "", nil},
		"well, with an IOMMU":    {diagnose.Tried{Verified: 56}, diagnose.Obstacles{IOMMU: "DMA-FQ"}, "", nil},
		"well, but the long way": {diagnose.Tried{Verified: 56}, diagnose.Obstacles{Redirecting: []string{"0000:16:01.0"}}, "ACS_OR_IOMMU", []string{"data arrives right, but ACS sends", "setpci -s 0000:16:01.0 ECAP_ACS+6.w=0000"}},
		"nothing was tried":      {diagnose.Tried{Untried: 2}, diagnose.Obstacles{Redirecting: []string{"0000:16:01.0"}}, "", nil},
		"ACS": {
			bad,
			diagnose.Obstacles{Redirecting: []string{"0000:16:01.0", "0000:96:01.0"}},
			"P2P_FAILED ACS_OR_IOMMU",
			[]string{"in 2 of 56 directions", "P2P_VERIFY_FAILED", "(hoststaged) and NCCL still serve", "at 2 bridges above the GPUs (0000:16:01.0, 0000:96:01.0)", "in the BIOS", "setpci -s 0000:96:01.0 ECAP_ACS+6.w=0000"},
		},
		"IOMMU":      {bad, diagnose.Obstacles{IOMMU: "DMA-FQ"}, "P2P_FAILED ACS_OR_IOMMU", []string{"(DMA-FQ)", "iommu=pt", "VT-d or AMD-Vi off in the BIOS"}},
		"both":       {bad, diagnose.Obstacles{IOMMU: "DMA", Redirecting: []string{"0000:16:01.0"}}, "P2P_FAILED ACS_OR_IOMMU ACS_OR_IOMMU", []string{"iommu=pt", "setpci"}},
		"not root":   {bad, diagnose.Obstacles{Unread: 3}, "P2P_FAILED ACS_OR_IOMMU", []string{"ACS of 3 bridges is not known", "run `weir doctor` as root"}},
		"no cause":   {bad, diagnose.Obstacles{IOMMU: diagnose.PassThrough}, "P2P_FAILED ACS_OR_IOMMU", []string{"a virtual machine hides them", "dmesg"}},
		"refused":    {diagnose.Tried{Refused: 2}, diagnose.Obstacles{}, "P2P_ABSENT", []string{"hoststaged", "CNS is the chipset"}},
		"everything": {diagnose.Tried{Verified: 1, Failed: 1, Refused: 1, Untried: 1}, diagnose.Obstacles{IOMMU: "DMA"}, "P2P_FAILED ACS_OR_IOMMU P2P_ABSENT", []string{"in 1 of 2 directions"}},
	} {
		all := diagnose.Doctor(c.tried, c.obstacles)
		codes := strings.Join(lo.Map(all, func(f diagnose.Finding, _ int) string { return string(f.Code) }), " ")
		text := strings.Join(lo.Map(all, func(f diagnose.Finding, _ int) string { return f.Text + " / " + f.Do }), "\n")
		if codes != c.codes {
			t.Errorf("%s: findings %q, want %q", name, codes, c.codes)
		}
		for _, w := range c.words {
			if !strings.Contains(text, w) {
				t.Errorf("%s: no %q in:\n%s", name, w, text)
			}
		}
	}
}
