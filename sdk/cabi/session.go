//go:build cgo

package main

// #include "weir.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unsafe"

	"github.com/weir-project/weir/sdk/cabi/internal/handle"
	"github.com/weir-project/weir/sdk/rank"
)

// session is a membership and the handle of its group of all ranks.
type session struct {
	*rank.Session
	world handle.Handle
}

// member is a group and the session that it belongs to.
type member struct {
	*rank.Group
	session handle.Handle
}

// What C holds handles of.
var (
	sessions handle.Table[*session]
	groups   handle.Table[member]
)

// longest bounds what the agent bounds by its own deadlines, in case it does not.
const longest = 10 * time.Minute

// within is the context of a request; 0 milliseconds leaves it to the agent.
func within(milliseconds C.int64_t) (context.Context, context.CancelFunc) {
	limit := longest
	if milliseconds > 0 && milliseconds < C.int64_t(longest/time.Millisecond) {
		limit = time.Duration(milliseconds) * time.Millisecond
	}
	return context.WithTimeout(context.Background(), limit)
}

//export weirJoin
func weirJoin(socket *C.char, number, world C.int32_t, rankText, worldText, device *C.char, timeout C.int64_t, out *C.weir_session, to *C.char) (code C.weir_result) {
	const what = "weir_join"
	defer survive(to, what, &code)
	o := rank.Options{Socket: C.GoString(socket), Rank: int(number), WorldSize: int(world), Device: C.GoString(device)}
	err := fromEnvironment(&o, C.GoString(rankText), C.GoString(worldText))
	if err != nil {
		return report(to, what, err)
	}
	ctx, cancel := within(timeout)
	defer cancel()
	s, err := rank.Join(ctx, o)
	if err != nil {
		return report(to, what, err)
	}
	joined := &session{Session: s}
	h, err := sessions.Put(joined)
	if err == nil {
		joined.world, err = groups.Put(member{s.World(), h}) // before C knows the session's handle
	}
	if err != nil {
		_ = sessions.Remove(h)
		return report(to, what, errors.Join(err, s.Close()))
	}
	*out = C.weir_session(h)
	return C.WEIR_OK
}

// fromEnvironment completes what the C library read, since Go's environment is that of the time when the library was loaded.
func fromEnvironment(o *rank.Options, number, world string) (err error) {
	if o.Socket == "" {
		return fmt.Errorf("%s is not set; start the program with `weir run -n N -- PROGRAM`", rank.EnvSocket)
	}
	if o.WorldSize < 0 {
		return fmt.Errorf("%w: world_size %d", errInvalid, o.WorldSize)
	}
	if o.WorldSize > 0 {
		return nil
	}
	if o.Rank, err = strconv.Atoi(number); err != nil {
		return fmt.Errorf("%s=%q is not a number", rank.EnvRank, number)
	}
	if o.WorldSize, err = strconv.Atoi(world); err != nil || o.WorldSize < 1 {
		return fmt.Errorf("%s=%q is not a number of ranks", rank.EnvWorldSize, world)
	}
	return nil
}

//export weirLeave
func weirLeave(h C.weir_session, to *C.char) (code C.weir_result) {
	const what = "weir_leave"
	defer survive(to, what, &code)
	s, err := sessions.Get(handle.Handle(h))
	if err != nil {
		return report(to, what, err)
	}
	mine := groups.All(func(m member) bool { return m.session == handle.Handle(h) })
	for _, m := range mine { // before any is closed: the caller waits for the call and tries again
		if m.InCall() {
			return report(to, what, rank.ErrBusy)
		}
	}
	var errs []error
	for g, m := range mine {
		errs = append(errs, m.Close())
		_ = groups.Remove(g) // or somebody has closed it meanwhile
	}
	if err := sessions.Remove(handle.Handle(h)); err != nil { // another thread was first
		return report(to, what, err)
	}
	return report(to, what, errors.Join(append(errs, s.Close())...))
}

//export weirWorld
func weirWorld(h C.weir_session, out *C.weir_group, to *C.char) (code C.weir_result) {
	const what = "weir_world"
	defer survive(to, what, &code)
	s, err := sessions.Get(handle.Handle(h))
	if err != nil {
		return report(to, what, err)
	}
	if _, err := groups.Get(s.world); err != nil {
		return report(to, what, err) // weir_close was called with it
	}
	*out = C.weir_group(s.world)
	return C.WEIR_OK
}

// put gives a group to C.
func put(g *rank.Group, session handle.Handle, out *C.weir_group) error {
	h, err := groups.Put(member{g, session})
	if err != nil {
		return errors.Join(err, g.Close())
	}
	*out = C.weir_group(h)
	return nil
}

//export weirNewGroup
func weirNewGroup(h C.weir_session, ranks *C.int32_t, count C.int32_t, timeout C.int64_t, out *C.weir_group, to *C.char) (code C.weir_result) {
	const what = "weir_new_group"
	defer survive(to, what, &code)
	s, err := sessions.Get(handle.Handle(h))
	if err != nil {
		return report(to, what, err)
	}
	if world := s.World().Size(); int(count) > world { // before the list is read
		return report(to, what, fmt.Errorf("%w: %d ranks of %d", errInvalid, count, world))
	}
	members := make([]int, count)
	for i, r := range unsafe.Slice(ranks, count) {
		members[i] = int(r)
	}
	ctx, cancel := within(timeout)
	defer cancel()
	g, err := s.NewGroup(ctx, members)
	if err != nil {
		return report(to, what, err)
	}
	return report(to, what, put(g, handle.Handle(h), out))
}
