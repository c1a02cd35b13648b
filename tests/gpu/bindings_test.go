package gpu

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/ondevice"
)

// bindings shares memory between two ranks, by CUDA IPC and as file descriptors, and uses what else plans will take.
func bindings(s *rank.Session, p *ondevice.Program) error {
	if err := ipc(s, p); err != nil {
		return fmt.Errorf("IPC: %w", err)
	}
	if err := blocks(s, p); err != nil {
		return fmt.Errorf("VMM: %w", err)
	}
	if err := events(p); err != nil {
		return fmt.Errorf("events: %w", err)
	}
	return peers(p)
}

// ipc has each rank read what the other wrote.
func ipc(s *rank.Session, p *ondevice.Program) error {
	g := s.World()
	if err := p.Fill(p.Src, byte(10+g.Rank()), 4096); err != nil {
		return err
	}
	h, err := p.ExportIPC(p.Src)
	if err != nil {
		return err
	}
	all, err := g.Exchange(context.Background(), h[:])
	if err != nil {
		return err
	}
	other := 1 - g.Rank()
	q, err := p.OpenIPC(cuda.IPCHandle(all[other]))
	if err != nil {
		return err
	}
	got := make([]byte, 4096)
	err = errors.Join(p.ToHost(got, q), p.CloseIPC(q))
	if err == nil && !bytes.Equal(got, bytes.Repeat([]byte{byte(10 + other)}, 4096)) {
		err = fmt.Errorf("read %d, want %d", got[0], 10+other)
	}
	return errors.Join(err, g.Barrier(context.Background()))
}

// blocks maps memory twice, the second time by its file descriptor, as another process would.
func blocks(s *rank.Session, p *ondevice.Program) error {
	device := s.World().Facts().Ranks[s.World().Rank()].Device.Index
	size, err := p.Granularity(device)
	if err != nil {
		return err
	}
	b, err := p.NewBlock(device, size)
	if err != nil {
		return err
	}
	f, err := p.ExportBlock(b)
	if err != nil {
		return err
	}
	again, err := p.ImportBlock(f)
	if err != nil {
		return err
	}
	one, err := p.Map(b, size, device)
	if err != nil {
		return err
	}
	two, err := p.Map(again, size, device)
	if err != nil {
		return err
	}
	got := make([]byte, 64)
	err = errors.Join(p.Fill(one, 77, size), p.ToHost(got, two))
	if err == nil && got[63] != 77 {
		err = fmt.Errorf("read %d, want 77", got[63])
	}
	return errors.Join(err, p.Unmap(one, size), p.Unmap(two, size), p.ReleaseBlock(b), p.ReleaseBlock(again), f.Close())
}

func events(p *ondevice.Program) error {
	from, err := p.NewEvent(true)
	if err != nil {
		return err
	}
	to, err := p.NewEvent(true)
	if err != nil {
		return err
	}
	other, err := p.NewStream()
	if err != nil {
		return err
	}
	err = errors.Join(p.Record(from, p.Stream), p.FillAsync(p.Dst, 1, ondevice.Bytes, p.Stream), p.Record(to, p.Stream), p.WaitEvent(other, to), p.SynchronizeStream(other))
	if err != nil {
		return err
	}
	ms, err := p.Elapsed(from, to)
	done, e := p.EventDone(to)
	if ms <= 0 || !done {
		e = errors.Join(e, fmt.Errorf("%g ms, done: %v", ms, done))
	}
	free, total, e2 := p.MemInfo()
	if free <= 0 || total < free {
		e2 = errors.Join(e2, fmt.Errorf("%d of %d bytes free", free, total))
	}
	return errors.Join(err, e, e2, p.DestroyEvent(from), p.DestroyEvent(to), p.DestroyStream(other))
}

// peers reaches the memory of another device, where there is one that can be reached.
func peers(p *ondevice.Program) error {
	all, err := p.Devices()
	if err != nil || len(all) < 2 {
		return err
	}
	can, err := p.CanAccessPeer(0, 1)
	if err != nil || !can {
		return err
	}
	c, err := p.Retain(1)
	if err != nil {
		return err
	}
	if p.Context == c {
		return nil
	}
	return errors.Join(p.EnablePeer(c), p.EnablePeer(c)) // the second time it had been enabled before
}
