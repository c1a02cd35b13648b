package foreign_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/topology/foreign"
)

// TestHugeTexts reads texts that would take minutes if something grew faster than it should; the test's own deadline
// is what they must meet.
func TestHugeTexts(t *testing.T) {
	fill := func(unit string) string { return strings.Repeat(unit, (1<<20)/len(unit)) }
	var names, lines, matrix strings.Builder
	for i := range 30000 {
		fmt.Fprintf(&names, "GPU%d ", i)
		fmt.Fprintf(&lines, "GPU %d: X (UUID: GPU-%d)\n", i, i)
	}
	for i := range 200 {
		fmt.Fprintf(&matrix, "GPU%d", i)
		for j := range 200 {
			cell := "NV4"
			switch {
			case i == j:
				cell = "X"
			case (i*j+i+j)%7 < 3:
				cell = "SYS"
			}
			matrix.WriteString(" " + cell)
		}
		matrix.WriteString("\n")
	}
	labels, infos, random := names.String(), lines.String(), matrix.String()
	for name, s := range map[string]string{
		"labels": labels, "labels and rows": labels + "GPU0 X " + fill("SYS "), "GPU lines": infos, "random links": random,
		"tables": fill("GPU0 GPU1\nGPU0 X OK\nGPU1 OK X\n"), "headers": fill("GPU0 GPU1 "), "prefixes": fill("a b c d e f g h i GPU0\n"),
		"open XML": fill("<pci busid=\"0000:00:00.0\" class=\"0x030000\">"), "GPUs in XML": "<system version=\"1\">" + fill("<pci busid=\"0000:00:00.0\" class=\"0x030000\"/>"),
		"quotes": fill("<pci '\"'\""), "ANSI": fill("\x1b["), "entities": fill("&amp;"), "tags": fill("<br"), "commas": fill("X,"),
		"words": fill("PIX"), "one word": fill("a"), "bars": fill("|"), "line ends": fill("\n"), "wrapped": fill(strings.Repeat(" ", 31) + "S\nYS"),
		"links": fill("GPU 0: A\n Link 0: 1 GB/s\n"), "lists": fill("GPU0 X 0-1,2\n"), "digits": fill("1"), "NV": "GPU0 GPU1\nGPU0 X NV" + fill("1"),
	} {
		t.Run(name, func(t *testing.T) {
			if r, err := foreign.Read([]byte(s[:min(len(s), 1<<20)])); err == nil {
				checkSound(t, r)
			}
		})
	}
	if _, err := foreign.Read(make([]byte, 1<<20+1)); err == nil || !strings.Contains(err.Error(), "more than the 1048576 bytes") {
		t.Errorf("a text of more than a mebibyte gives %v", err)
	}
}
