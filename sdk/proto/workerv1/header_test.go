package workerv1

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/tests/require"
)

// TestHeaderAgrees compiles the C header and compares its offsets and numbers with this package's.
func TestHeaderAgrees(t *testing.T) {
	cc := require.Tool(t, "cc")
	header, err := filepath.Abs("../../worker/weir_worker.h")
	if err != nil {
		t.Fatal(err)
	}
	expect := map[string]int{
		"offsetof(struct weir_worker_header, magic)": offMagic, "offsetof(struct weir_worker_header, version)": offVersion,
		"offsetof(struct weir_worker_header, world)": offWorld, "offsetof(struct weir_worker_header, slots)": offSlots,
		"offsetof(struct weir_worker_header, slot_bytes)": offSlotBytes, "offsetof(struct weir_worker_header, completions)": offCompletions,
		"offsetof(struct weir_worker_header, records)": offRecords, "offsetof(struct weir_worker_header, outputs)": offOutputs,
		"offsetof(struct weir_worker_header, doorbell)": offDoorbell, "offsetof(struct weir_worker_header, asleep)": offAsleep,
		"offsetof(struct weir_worker_header, bell)": offBell, "offsetof(struct weir_worker_header, waiting)": offWaiting,
		"offsetof(struct weir_worker_header, stop)": offStop,
		"offsetof(struct weir_worker_record, tile)": recTile, "offsetof(struct weir_worker_record, call)": recCall,
		"offsetof(struct weir_worker_record, bytes)": recBytes, "offsetof(struct weir_worker_record, total)": recTotal,
		"offsetof(struct weir_worker_record, data_type)": recType, "offsetof(struct weir_worker_record, op)": recOp,
		"sizeof(struct weir_worker_record)": line, "sizeof(struct weir_worker_greeting)": greetingSize,
		"WEIR_WORKER_MAGIC": Magic, "WEIR_WORKER_VERSION": Version, "WEIR_WORKER_DONE": Done, "WEIR_WORKER_FAILED": Failed,
		"WEIR_FLOAT32": int(collective.Float32), "WEIR_FLOAT64": int(collective.Float64), "WEIR_FLOAT16": int(collective.Float16), "WEIR_BFLOAT16": int(collective.BFloat16),
		"WEIR_INT8": int(collective.Int8), "WEIR_UINT8": int(collective.Uint8), "WEIR_INT32": int(collective.Int32), "WEIR_INT64": int(collective.Int64),
		"WEIR_SUM": int(collective.Sum), "WEIR_PROD": int(collective.Prod), "WEIR_MIN": int(collective.Min), "WEIR_MAX": int(collective.Max), "WEIR_AVG": int(collective.Avg),
	}
	var program strings.Builder
	fmt.Fprintf(&program, "#include <stddef.h>\n#include \"%s\"\n", header)
	for expression, value := range expect {
		fmt.Fprintf(&program, "_Static_assert(%s == %d, \"%s\");\n", expression, value, strings.ReplaceAll(expression, `"`, ""))
	}
	fmt.Fprintf(&program, "_Static_assert(sizeof WEIR_WORKER_GREETING == %d, \"greeting\");\n", len(greeting)+1)
	file := filepath.Join(t.TempDir(), "x.c")
	if err := os.WriteFile(file, []byte(program.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-std=c11", "-Wall", "-Werror", "-fsyntax-only", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestVectors are the words that a worker in any language must compute.
func TestVectors(t *testing.T) {
	for _, c := range []struct {
		tile uint64
		word uint64
	}{{1, 0x1_00000001}, {7, 0x1_00000007}, {1<<32 - 1, 0x1_ffffffff}, {1 << 32, 0x1_00000000}, {1<<32 + 5, 0x1_00000005}} {
		if got := Completion(c.tile, Done); got != c.word {
			t.Errorf("tile %d done is %#x, want %#x", c.tile, got, c.word)
		}
	}
	s := Shape{World: 3, Slots: 2, SlotBytes: 4096}
	for name, c := range map[string][2]int64{
		"completions": {s.completions(), 256}, "records": {s.records(), 384}, "outputs": {s.outputs(), 4096},
		"control": {s.ControlBytes(), 12288}, "inputs": {s.InputBytes(), 24576}, "slot of tile 3": {int64(s.Slot(3)), 0},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: %d, want %d", name, c[0], c[1])
		}
	}
}

// TestCompletionWraps: tiles go on where the lower half of their number wraps, also for slots that are no power of two,
// and a tile given up there is the next of its slot.
func TestCompletionWraps(t *testing.T) {
	for _, slots := range []int{1, 2, 3, 8} {
		s := Shape{World: 1, Slots: slots, SlotBytes: 64}
		control := make([]byte, s.ControlBytes())
		m, err := NewMemory(s, control, make([]byte, s.InputBytes()))
		if err != nil {
			t.Fatal(err)
		}
		first := uint64(1<<32 - 5)
		for i := range uint64(slots) { // as if all before were done
			*m.Completion(m.Slot(first - 1 - i)) = Completion(first-1-i, Done)
		}
		for tile := first; tile < first+20; tile++ {
			m.Arrive(0, tile, Record{})
			if fate := m.Fate(tile); fate != 0 {
				t.Fatalf("%d slots: tile %#x is %d before it is done", slots, tile, fate)
			}
			if !m.Complete(tile) || m.Fate(tile) != Done {
				t.Fatalf("%d slots: tile %#x is not done", slots, tile)
			}
		}
		m.GiveUp()
		for tile := first + 20 - uint64(slots); tile < first+20; tile++ {
			if m.Fate(tile) != Done || m.Fate(tile+uint64(slots)) != Failed || m.Complete(tile+uint64(slots)) {
				t.Errorf("%d slots: tile %#x and the next after giving up: %d, %d", slots, tile, m.Fate(tile), m.Fate(tile+uint64(slots)))
			}
		}
	}
}
