package p2p

import (
	"bytes"
	"fmt"

	"github.com/weir-project/weir/core/backend"
)

// round is one write of one GPU into the memory of another.
type round struct {
	Copy  bool // by the copy engine, then the flag; else by a kernel, data and flag in each store
	Bytes int64
	Seed  uint64
	Flag  uint64 // 32 bits, never what memory is filled with before
}

// The memory that a GPU offers: room for the longest round, and behind it the flag of those that copy. A GPU maps memory in
// pages of 2 MiB.
const (
	longest   = 3 << 20
	flagAt    = longest + 4096
	offerSize = flagAt + 8
	poison    = 0xee
)

// rounds are what is written in one direction.
func rounds(direction uint64) []round {
	var all []round
	for _, n := range []int64{4096, 256 << 10, longest} {
		for _, byCopy := range []bool{false, true} {
			for range 2 {
				k := uint64(len(all))
				all = append(all, round{Copy: byCopy, Bytes: n, Seed: direction<<32 | k<<8 | 1, Flag: 0x57650000 | direction&0xff<<8 | k + 1})
			}
		}
	}
	return all
}

// found is what the owner of the memory saw of a round.
type found struct {
	Missing uint32 // words, or the one flag, that its GPU waited for in vain
	Wrong   uint32 // words that were wrong to its GPU when their flag had come

	// What the memory held afterwards.
	WrongBytes int64
	First      int64  // offset of the first wrong byte
	Want, Got  []byte // the word that it lies in
}

// compare fills in what the memory held afterwards.
func (f *found) compare(r round, got []byte) {
	want := make([]byte, len(got))
	flag := r.Flag
	if r.Copy {
		flag = 0
	}
	fill(want, r.Seed, flag)
	if bytes.Equal(want, got) {
		return
	}
	for i := range want {
		if want[i] == got[i] {
			continue
		}
		if f.WrongBytes++; f.WrongBytes == 1 {
			f.First = int64(i)
			f.Want, f.Got = want[i/8*8:i/8*8+8], got[i/8*8:i/8*8+8]
		}
	}
}

// fault says what is wrong; "" if nothing is.
func (f found) fault(r round) string {
	how := fmt.Sprintf("a kernel's stores of %s", backend.Size(r.Bytes))
	if r.Copy {
		how = fmt.Sprintf("a copy of %s", backend.Size(r.Bytes))
	}
	switch {
	case f.Missing > 0 && f.WrongBytes == 0:
		return fmt.Sprintf("the flag never came to the waiting GPU, though the data did (%s)", how)
	case f.Missing > 0:
		return fmt.Sprintf("the flag never came; %d of %d B had arrived (%s)", r.Bytes-f.WrongBytes, r.Bytes, how)
	case f.WrongBytes > 0:
		return fmt.Sprintf("wrong data: %d of %d B, the first at offset %d, where %x was written and %x was read (%s)", f.WrongBytes, r.Bytes, f.First, f.Want, f.Got, how)
	case f.Wrong > 0:
		return fmt.Sprintf("data came after its flag: %d words were wrong when the flag was there (%s)", f.Wrong, how)
	}
	return ""
}
