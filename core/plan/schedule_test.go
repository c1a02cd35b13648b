package plan

import (
	"strings"
	"testing"
)

// valid is two ranks that each copy, signal, wait and reduce.
func valid() *Schedule {
	program := func(rank int) []Step {
		return []Step{
			{Kind: Copy, Dst: Place{Where: Slot, Rank: rank}, Srcs: []Place{{Where: In}}, Chunk: AllChunks},
			{Kind: Signal, Signal: 1},
			{Kind: Wait, Rank: 1 - rank, Signal: 1, Lag: 1},
			{Kind: Reduce, Dst: Place{Where: Out}, Srcs: []Place{{Where: Slot, Rank: 0}, {Where: Slot, Rank: 1}}, Chunk: 2, Final: true},
		}
	}
	return &Schedule{TileBytes: 128, Buffers: 2, Slots: 1, Signals: 2, Chunks: 3, Programs: [][]Step{program(0), program(1)}}
}

func TestScheduleValidate(t *testing.T) {
	if err := valid().Validate(2); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		breakIt func(s *Schedule)
		want    string
	}{
		"tile of nothing":       {func(s *Schedule) { s.TileBytes = 0 }, "0 bytes in a tile"},
		"tile too long":         {func(s *Schedule) { s.TileBytes = MaxTileBytes + 64 }, "bytes in a tile"},
		"tile of half a line":   {func(s *Schedule) { s.TileBytes = 96 }, "multiple of 64"},
		"no buffer":             {func(s *Schedule) { s.Buffers = 0 }, "0 buffers"},
		"too many buffers":      {func(s *Schedule) { s.Buffers = MaxBuffers + 1 }, "9 buffers"},
		"negative slots":        {func(s *Schedule) { s.Slots = -1 }, "-1 slots"},
		"too many slots":        {func(s *Schedule) { s.Slots = MaxSlots + 1 }, "9 slots"},
		"too many signals":      {func(s *Schedule) { s.Signals = MaxSignals + 1 }, "65 signals"},
		"no chunk":              {func(s *Schedule) { s.Chunks = 0 }, "0 chunks"},
		"a program missing":     {func(s *Schedule) { s.Programs = s.Programs[:1] }, "1 programs for 2 ranks"},
		"too many steps":        {func(s *Schedule) { s.Programs[1] = make([]Step, MaxSteps+1) }, "rank 1: 65537 steps"},
		"too much memory":       {func(s *Schedule) { s.TileBytes, s.Buffers, s.Slots = MaxTileBytes, 8, 8 }, "bytes of shared slots"},
		"unknown instruction":   {func(s *Schedule) { s.Programs[0][0].Kind = 9 }, "rank 0, step 0 (StepKind(9)): unknown instruction"},
		"unknown signal":        {func(s *Schedule) { s.Programs[0][1].Signal = 2 }, "step 1 (signal): signal 2, want 0 to 1"},
		"wait for nobody":       {func(s *Schedule) { s.Programs[0][2].Rank = 2 }, "step 2 (wait): rank 2, want 0 to 1"},
		"wait for no signal":    {func(s *Schedule) { s.Programs[0][2].Signal = -1 }, "signal -1"},
		"wait for the future":   {func(s *Schedule) { s.Programs[0][2].Lag = -1 }, "lag of -1 tiles"},
		"wait too far back":     {func(s *Schedule) { s.Programs[0][2].Lag = MaxBuffers + 1 }, "lag of 9 tiles"},
		"copy of two":           {func(s *Schedule) { s.Programs[0][0].Srcs = make([]Place, 2) }, "(copy): 2 sources"},
		"copy of none":          {func(s *Schedule) { s.Programs[0][0].Srcs = nil }, "(copy): 0 sources"},
		"reduce of none":        {func(s *Schedule) { s.Programs[0][3].Srcs = nil }, "(reduce): 0 sources"},
		"reduce of too many":    {func(s *Schedule) { s.Programs[0][3].Srcs = make([]Place, MaxWorld+1) }, "(reduce): 257 sources"},
		"chunk that is not":     {func(s *Schedule) { s.Programs[0][3].Chunk = 3 }, "chunk 3, want 0 to 2"},
		"chunk below all":       {func(s *Schedule) { s.Programs[0][3].Chunk = -2 }, "chunk -2"},
		"writes to the source":  {func(s *Schedule) { s.Programs[0][3].Dst.Where = In }, "writes to the source buffer"},
		"writes to a peer's in": {func(s *Schedule) { s.Programs[0][3].Dst.Where = PeerIn }, "which may only be read"},
		"writes a peer's out":   {func(s *Schedule) { s.Programs[0][3].Dst.Where = PeerOut }, "which may only be read"},
		"buffer of nobody":      {func(s *Schedule) { s.Programs[0][3].Srcs[0] = Place{Where: PeerOut, Rank: 2} }, "buffer owner 2, want 0 to 1"},
		"unknown place":         {func(s *Schedule) { s.Programs[0][3].Dst.Where = 5 }, "unknown place 5"},
		"slot of nobody":        {func(s *Schedule) { s.Programs[0][3].Srcs[1].Rank = 2 }, "slot owner 2"},
		"slot that is not":      {func(s *Schedule) { s.Programs[0][3].Srcs[1].Slot = 1 }, "slot 1, want 0 to 0"},
		"bad step of last rank": {func(s *Schedule) { s.Programs[1][1].Signal = 7 }, "rank 1, step 1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := valid()
			c.breakIt(s)
			if err := s.Validate(2); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if err := valid().Validate(MaxWorld + 1); err == nil {
		t.Error("more ranks than a schedule may have were accepted")
	}
}

// TestScheduleLayout: signals and slots lie apart, in order, within the shared memory, slots on a page of their own.
func TestScheduleLayout(t *testing.T) {
	s := valid()
	s.Slots, s.Buffers = 3, 2
	end := int64(0)
	for rank := range s.Programs {
		for signal := range s.Signals {
			at := s.SignalOffset(rank, signal)
			if at != end || at%8 != 0 {
				t.Errorf("signal %d of rank %d is at %d, the one before ends at %d", signal, rank, at, end)
			}
			end = at + signalStride
		}
	}
	first := s.SlotOffset(0, 0, 0)
	if first < end || first%4096 != 0 {
		t.Errorf("slots begin at %d, signals end at %d", first, end)
	}
	end = first
	for rank := range s.Programs {
		for slot := range s.Slots {
			for buffer := range s.Buffers {
				if at := s.SlotOffset(rank, slot, buffer); at != end {
					t.Errorf("slot %d/%d of rank %d is at %d, want %d", slot, buffer, rank, at, end)
				}
				end += s.TileBytes
			}
		}
	}
	if s.SharedBytes() != end {
		t.Errorf("%d bytes, the last slot ends at %d", s.SharedBytes(), end)
	}
}
