package reduce

import (
	"runtime"
	"sync/atomic"
	"testing"
)

// TestStoreRelease passes messages from one goroutine to another: what was written before the flag is there once the flag
// is seen, and the receiver's answer lets the sender write the next.
func TestStoreRelease(t *testing.T) {
	const messages = 20_000
	var sent, seen uint64
	var data [64]uint64
	await := func(flag *uint64, want uint64) {
		for n := 0; atomic.LoadUint64(flag) < want; n++ {
			if n%100 == 99 {
				runtime.Gosched()
			}
		}
	}
	go func() {
		for m := uint64(1); m <= messages; m++ {
			await(&seen, m-1)
			for i := range data {
				data[i] = m
			}
			StoreRelease64(&sent, m)
		}
	}()
	wrong := 0
	for m := uint64(1); m <= messages; m++ {
		await(&sent, m)
		for i := range data {
			if data[i] != m {
				wrong++
			}
		}
		StoreRelease64(&seen, m)
	}
	if wrong != 0 {
		t.Errorf("%d words were not yet there when the flag was", wrong)
	}
}

func BenchmarkStoreRelease(b *testing.B) {
	var flag uint64
	b.Run("release", func(b *testing.B) {
		for b.Loop() {
			StoreRelease64(&flag, 1)
		}
	})
	b.Run("atomic", func(b *testing.B) {
		for b.Loop() {
			atomic.StoreUint64(&flag, 1)
		}
	})
}
