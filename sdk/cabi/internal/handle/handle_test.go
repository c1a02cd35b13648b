package handle_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/weir-project/weir/sdk/cabi/internal/handle"
)

func TestTable(t *testing.T) {
	var table handle.Table[string]
	a, err := table.Put("a")
	if err != nil {
		t.Fatal(err)
	}
	b, err := table.Put("b")
	if err != nil {
		t.Fatal(err)
	}
	if a == 0 || b == 0 || a == b {
		t.Errorf("handles %d and %d: want two that differ and are not 0", a, b)
	}
	if v, err := table.Get(b); v != "b" || err != nil {
		t.Errorf("Get(%d) = %q, %v", b, v, err)
	}
	if err := table.Remove(a); err != nil {
		t.Error(err)
	}
	for _, h := range []handle.Handle{0, a, b + 1, b + handle.Max, ^handle.Handle(0)} {
		if v, err := table.Get(h); !errors.Is(err, handle.ErrNone) {
			t.Errorf("Get(%d) = %q, %v, want ErrNone", h, v, err)
		}
		if err := table.Remove(h); !errors.Is(err, handle.ErrNone) {
			t.Errorf("Remove(%d) = %v, want ErrNone", h, err)
		}
	}
	if all := table.All(func(v string) bool { return v == "b" }); len(all) != 1 || all[b] != "b" {
		t.Errorf("All = %v, want the one value b", all)
	}
	if all := table.All(func(v string) bool { return v == "a" }); len(all) != 0 {
		t.Errorf("All = %v after a was removed", all)
	}
}

// TestTableNeverRepeats fills the table, and goes round it once more.
func TestTableNeverRepeats(t *testing.T) {
	var table handle.Table[int]
	seen := map[handle.Handle]bool{}
	put := func(i int) handle.Handle {
		h, err := table.Put(i)
		if err != nil {
			t.Fatalf("value %d: %s", i, err)
		}
		if h == 0 || seen[h] {
			t.Fatalf("value %d: handle %d is 0 or was given before", i, h)
		}
		seen[h] = true
		return h
	}
	var first handle.Handle
	for i := range handle.Max {
		h := put(i)
		if i == 0 {
			first = h
		}
	}
	if _, err := table.Put(0); !errors.Is(err, handle.ErrFull) {
		t.Fatalf("a full table took another value: %v", err)
	}
	if err := table.Remove(first); err != nil {
		t.Fatal(err)
	}
	if h := put(-1); h%handle.Max != first%handle.Max {
		t.Errorf("handle %d: not in the one slot that is free", h)
	}
	if _, err := table.Get(first); !errors.Is(err, handle.ErrNone) {
		t.Errorf("the old handle of a slot in use again: %v, want ErrNone", err)
	}
}

// TestTableTogether has goroutines that put and remove their own values see nobody else's.
func TestTableTogether(t *testing.T) {
	var table handle.Table[int]
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 2000 {
				h, err := table.Put(i)
				if err != nil {
					t.Error(err)
					return
				}
				if v, err := table.Get(h); v != i || err != nil {
					t.Errorf("Get(%d) = %d, %v, want %d", h, v, err, i)
				}
				if err := table.Remove(h); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
