package cuda

import "unsafe"

// Stream is a CUstream. The zero value is the legacy default stream.
type Stream uintptr

// Event is a CUevent.
type Event uintptr

// NewStream makes a stream of the current context that does not wait for the legacy default stream.
func (a *API) NewStream() (Stream, error) {
	const nonBlocking = 1
	s := new(Stream)
	err := a.call(streamCreate, uintptr(unsafe.Pointer(s)), nonBlocking)
	return *s, err
}

// DestroyStream gives a stream up; work that it holds is still done.
func (a *API) DestroyStream(s Stream) error { return a.call(streamDestroy, uintptr(s)) }

// SynchronizeStream waits for all work of a stream.
func (a *API) SynchronizeStream(s Stream) error { return a.call(streamSynchronize, uintptr(s)) }

// StreamDone reports whether all work of a stream is done, without waiting.
func (a *API) StreamDone(s Stream) (bool, error) { return done(a.call(streamQuery, uintptr(s))) }

// WaitEvent makes later work of a stream wait for an event.
func (a *API) WaitEvent(s Stream, e Event) error {
	return a.call(streamWaitEvent, uintptr(s), uintptr(e), 0)
}

// StreamContext is the context that a stream belongs to; for a default stream the current one.
func (a *API) StreamContext(s Stream) (Context, error) {
	c := new(Context)
	err := a.call(streamGetCtx, uintptr(s), uintptr(unsafe.Pointer(c)))
	return *c, err
}

// NewEvent makes an event of the current context; only a timed one can be given to Elapsed.
func (a *API) NewEvent(timed bool) (Event, error) {
	const disableTiming = 2
	e := new(Event)
	flags := uintptr(disableTiming)
	if timed {
		flags = 0
	}
	err := a.call(eventCreate, uintptr(unsafe.Pointer(e)), flags)
	return *e, err
}

// DestroyEvent gives an event up.
func (a *API) DestroyEvent(e Event) error { return a.call(eventDestroy, uintptr(e)) }

// Record has an event happen when a stream has come past its present work.
func (a *API) Record(e Event, s Stream) error { return a.call(eventRecord, uintptr(e), uintptr(s)) }

// SynchronizeEvent waits for an event.
func (a *API) SynchronizeEvent(e Event) error { return a.call(eventSynchronize, uintptr(e)) }

// EventDone reports whether an event has happened, without waiting.
func (a *API) EventDone(e Event) (bool, error) { return done(a.call(eventQuery, uintptr(e))) }

func done(err error) (bool, error) {
	if Is(err, NotReady) {
		return false, nil
	}
	return err == nil, err
}

// Elapsed is the time between two events that have happened, in milliseconds.
func (a *API) Elapsed(from, to Event) (float32, error) {
	ms := new(float32)
	err := a.call(eventElapsedTime, uintptr(unsafe.Pointer(ms)), uintptr(from), uintptr(to))
	return *ms, err
}
