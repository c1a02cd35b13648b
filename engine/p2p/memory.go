package p2p

import (
	"errors"
	"os"
)

// offer makes memory that another process may map.
func (w *worker) offer() (*os.File, error) {
	page, err := w.api.Granularity(w.device.Index)
	if err != nil {
		return nil, err
	}
	m := mapping{bytes: (offerSize + page - 1) / page * page}
	if m.block, err = w.api.NewBlock(w.device.Index, m.bytes); err != nil {
		return nil, err
	}
	if m.at, err = w.api.Map(m.block, m.bytes, w.device.Index); err != nil {
		return nil, errors.Join(err, w.api.ReleaseBlock(m.block))
	}
	w.offered = m
	return w.api.ExportBlock(m.block)
}

// take maps the memory of another GPU.
func (w *worker) take(owner string, file *os.File, r *reply) error {
	peer, err := w.api.Find(owner)
	if err != nil {
		r.Unseen = err.Error()
		return nil
	}
	can := peer.Index == w.device.Index // two processes on one GPU
	if !can {
		if can, err = w.api.CanAccessPeer(w.device.Index, peer.Index); err != nil {
			return err
		}
	}
	if !can {
		r.Refused = "cuDeviceCanAccessPeer says no"
		return nil
	}
	if file == nil {
		return errors.New("no descriptor came with the memory")
	}
	page, err := w.api.Granularity(peer.Index)
	if err != nil {
		return err
	}
	m := mapping{bytes: (offerSize + page - 1) / page * page}
	if m.block, err = w.api.ImportBlock(file); err != nil {
		return err
	}
	if m.at, err = w.api.Map(m.block, m.bytes, w.device.Index); err != nil {
		return errors.Join(err, w.api.ReleaseBlock(m.block))
	}
	w.taken = m
	return nil
}

func (w *worker) drop() error {
	var errs []error
	for _, m := range []*mapping{&w.offered, &w.taken} {
		if m.at != 0 {
			errs = append(errs, w.api.Unmap(m.at, m.bytes), w.api.ReleaseBlock(m.block))
		}
		*m = mapping{}
	}
	return errors.Join(errs...)
}
