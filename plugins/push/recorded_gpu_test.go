package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/native/cuda"
)

// record is a call as the wire has it: what every buffer holds once all ranks have pushed, made without the kernels.
type record struct {
	world, rank     int // of all, and the one that runs
	dt              collective.DataType
	count           int64
	sequence, flag  uint32
	inputs, buffers [][]byte // by rank; of the buffers what the running rank leaves
	preset          [][]byte // the buffers before it runs
	sum             []byte
}

// encode writes small whole numbers, whose sums are exact in every type.
func encode(dt collective.DataType, v int) []byte {
	bits := math.Float32bits(float32(v))
	if dt == collective.BFloat16 {
		return binary.LittleEndian.AppendUint16(nil, uint16(bits>>16))
	}
	return binary.LittleEndian.AppendUint32(nil, bits)
}

func newRecord(world, rank int, dt collective.DataType, count, bufferBytes int64, sequence, flag uint32) *record {
	r := &record{world: world, rank: rank, dt: dt, count: count, sequence: sequence, flag: flag, inputs: make([][]byte, world)}
	for i := range count {
		sum := 0
		for k := range world {
			v := (int(i)*7+k*5)%9 - 4
			sum += v
			r.inputs[k] = append(r.inputs[k], encode(dt, v)...)
		}
		r.sum = append(r.sum, encode(dt, sum)...)
	}
	for range world {
		r.buffers = append(r.buffers, make([]byte, bufferBytes))
		r.preset = append(r.preset, make([]byte, bufferBytes))
	}
	return r
}

// put writes unit i of a message into a slot of a rank's buffer; from is the rank that pushes it.
func (r *record) put(owner int, slot int64, from int, message []byte, i int64) {
	unit := make([]byte, unitBytes)
	copy(unit, message[min(i*unitBytes, int64(len(message))):])
	var b []byte
	for w := range 2 {
		b = append(b, unit[4*w:4*w+4]...)
		b = binary.LittleEndian.AppendUint32(b, r.flag)
	}
	slot += int64(r.sequence&1) * (int64(len(r.buffers[owner])) / slotBytes / halves)
	copy(r.buffers[owner][slot*slotBytes:], b)
	if from != r.rank {
		copy(r.preset[owner][slot*slotBytes:], b)
	}
}

// oneShot fills in what a one-shot call pushes: into inboxes, or onto boards.
func (r *record) oneShot(board bool) {
	part := int64(len(r.buffers[0])) / slotBytes / halves / int64(r.world)
	for from, message := range r.inputs {
		for i := range ceil(int64(len(message)), unitBytes) {
			for to := range r.world {
				switch {
				case board:
					r.put(from, i, from, message, i)
				case to != from:
					r.put(to, int64(from)*part+i, from, message, i)
				}
			}
		}
	}
}

// twoShot fills in what a two-shot call pushes.
func (r *record) twoShot(board bool) {
	world, units := int64(r.world), ceil(int64(len(r.sum)), unitBytes)
	slots, length := int64(len(r.buffers[0]))/slotBytes/halves, ceil(units, world)
	part := slots / (2 * world)
	if board {
		part = slots / (world + 1)
	}
	for u := range units {
		owner, i := u/length, u%length
		if board {
			r.put(int(owner), world*part+i, int(owner), r.sum, u)
		}
		for k := range world {
			switch {
			case k == owner:
			case board:
				r.put(int(k), owner*part+i, int(k), r.inputs[k], u)
			default:
				r.put(int(owner), k*part+i, int(k), r.inputs[k], u)
				r.put(int(k), (world+owner)*part+i, int(owner), r.sum, u)
			}
		}
	}
}

// TestGPURecorded: a rank alone, whose peers' packets are there already, sums them and pushes exactly what the format says.
// Nothing waits, so it runs under compute-sanitizer too, with buffers that end where the data does.
func TestGPURecorded(t *testing.T) {
	const sequence = 41
	for _, b := range backends() {
		for _, world := range []int{1, 2, 3, 8, 16} {
			for _, dt := range []collective.DataType{collective.Float32, collective.BFloat16} {
				for _, count := range []int64{1, 3, 501, 12345} {
					t.Run(fmt.Sprintf("%s/%d/%s/%d", b.Info().Name, world, dt, count), func(t *testing.T) {
						testRecord(t, b, world, dt, count, sequence)
					})
				}
			}
		}
	}
}

func testRecord(t *testing.T, b backend.Backend, world int, dt collective.DataType, count int64, sequence uint32) {
	g, k := openGPU(t), kernelOf(t, b, world, 1)
	k.BufferBytes = halves * 2 * int64(world+1) * ceil(count*int64(dt.Size()), unitBytes) * slotBytes // no more than it takes
	team := newTeam(g, world, k.BufferBytes, k.Buffer == plan.HostBuffer)
	team.preset(sequence)
	rank := team.ranks[world/2]
	offset, bytesOf := int64(dt.Size()), count*int64(dt.Size())
	in, out := g.alloc(offset+bytesOf), g.alloc(offset+bytesOf)
	c := team.call(rank, dt, count, in+cuda.Pointer(offset), out+cuda.Pointer(offset))
	r := newRecord(world, rank.rank, dt, count, k.BufferBytes, sequence, sequence<<12|c.hash)
	tr := &trial{team: team, kernel: k}
	row := tr.row(dt, bytesOf)
	switch row.Function[:len(row.Function)-len(dt.String())-1] {
	case "oneshot":
		r.oneShot(false)
	case "twoshot":
		r.twoShot(false)
	case "hoststaged_oneshot":
		r.oneShot(true)
	case "hoststaged_twoshot":
		r.twoShot(true)
	default:
		t.Fatalf("no format for %s", row.Function)
	}
	for i, p := range team.ranks {
		g.check(g.ToDevice(p.buffer, r.preset[i]))
	}
	g.check(g.ToDevice(c.in, r.inputs[rank.rank]))
	launch(g, g.function(sourceOf(b, world, ""), row.Function), row.Grid, row.Block, rank.stream, c)
	(&alone{trial: tr}).ends(rank.stream)
	got := make([]byte, bytesOf)
	if g.check(g.ToHost(got, c.out)); !bytes.Equal(got, r.sum) {
		t.Error("the sum is wrong")
	}
	for i, p := range team.ranks {
		got := make([]byte, k.BufferBytes)
		if g.check(g.ToHost(got, p.buffer)); !bytes.Equal(got, r.buffers[i]) {
			t.Errorf("the buffer of rank %d is not what the format says", i)
		}
	}
	if rank.fault() != 0 || team.sequence(rank) != sequence+1 {
		t.Errorf("fault %d, sequence %d", rank.fault(), team.sequence(rank))
	}
}
