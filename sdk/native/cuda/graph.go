package cuda

import (
	"slices"
	"unsafe"
)

// Graph is a CUgraph, GraphExec a CUgraphExec, UserObject a CUuserObject.
type (
	Graph      uintptr
	GraphExec  uintptr
	UserObject uintptr
)

// CaptureMode says which calls of which threads may not be made while a stream is captured.
type CaptureMode uintptr

// The capture modes.
const (
	CaptureGlobal CaptureMode = iota
	CaptureThreadLocal
	CaptureRelaxed
)

// CaptureStatus is whether a stream is being captured.
type CaptureStatus int32

// The capture statuses.
const (
	NotCapturing CaptureStatus = iota
	Capturing
	CaptureInvalidated // something that may not be captured was
)

// BeginCapture has later work of a stream recorded instead of done.
func (a *API) BeginCapture(s Stream, mode CaptureMode) error {
	return a.call(streamBeginCapture, uintptr(s), uintptr(mode))
}

// EndCapture ends a capture and returns what was recorded.
func (a *API) EndCapture(s Stream) (Graph, error) {
	g := new(Graph)
	err := a.call(streamEndCapture, uintptr(s), uintptr(unsafe.Pointer(g)))
	return *g, err
}

// Capture is a capture in progress.
type Capture struct {
	Status CaptureStatus
	ID     uint64 // differs between captures of a process
	Graph  Graph  // so far
}

// CaptureInfo is the capture that a stream is part of.
func (a *API) CaptureInfo(s Stream) (Capture, error) {
	c := new(Capture)
	err := a.call(streamGetCaptureInfo, uintptr(s), uintptr(unsafe.Pointer(&c.Status)), uintptr(unsafe.Pointer(&c.ID)),
		uintptr(unsafe.Pointer(&c.Graph)), 0, 0)
	return *c, err
}

// Node is a CUgraphNode.
type Node uintptr

// CaptureNodes is the capture that a stream is part of, and the nodes that its next work would come after.
func (a *API) CaptureNodes(s Stream) (Capture, []Node, error) {
	c, nodes, n := new(Capture), new(unsafe.Pointer), new(uintptr)
	err := a.call(streamGetCaptureInfo, uintptr(s), uintptr(unsafe.Pointer(&c.Status)), uintptr(unsafe.Pointer(&c.ID)),
		uintptr(unsafe.Pointer(&c.Graph)), uintptr(unsafe.Pointer(nodes)), uintptr(unsafe.Pointer(n)))
	if err != nil || c.Status != Capturing || *n == 0 {
		return *c, nil, err
	}
	return *c, slices.Clone(unsafe.Slice((*Node)(*nodes), *n)), nil // the driver's own array is good until the next call
}

// DependOn has the next work of a stream that is being captured come after a node of the same capture too.
func (a *API) DependOn(s Stream, node Node) error {
	const add = 0
	n := &node
	return a.call(streamUpdateCapture, uintptr(s), uintptr(unsafe.Pointer(n)), 1, add)
}

// ExchangeCaptureMode sets what the calling thread may do while others capture, and returns what it was.
func (a *API) ExchangeCaptureMode(mode CaptureMode) (CaptureMode, error) {
	m := new(int32)
	*m = int32(mode)
	err := a.call(exchangeCaptureMode, uintptr(unsafe.Pointer(m)))
	return CaptureMode(*m), err
}

// Relaxed runs f so that nothing that it calls disturbs a capture of another thread. The goroutine must be locked to
// its thread.
func (a *API) Relaxed(f func() error) error {
	before, err := a.ExchangeCaptureMode(CaptureRelaxed)
	if err != nil {
		return err
	}
	err = f()
	if _, e := a.ExchangeCaptureMode(before); err == nil {
		err = e
	}
	return err
}

// Instantiate makes a graph that can be launched.
func (a *API) Instantiate(g Graph) (GraphExec, error) {
	x := new(GraphExec)
	err := a.call(graphInstantiate, uintptr(unsafe.Pointer(x)), uintptr(g), 0)
	return *x, err
}

// graphNotAlike is CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE.
const graphNotAlike = 910

// Update has later launches of x do what g says, which must have nodes of the same kinds in the same order as what x was made
// of. It reports whether it has; x stays as it was if not.
func (a *API) Update(x GraphExec, g Graph) (bool, error) {
	node, how := new(Node), new(int32)
	err := a.call(graphExecUpdate, uintptr(x), uintptr(g), uintptr(unsafe.Pointer(node)), uintptr(unsafe.Pointer(how)))
	if Is(err, graphNotAlike) {
		return false, nil
	}
	return err == nil, err
}

// Launch runs a graph in stream order.
func (a *API) Launch(x GraphExec, s Stream) error { return a.call(graphLaunch, uintptr(x), uintptr(s)) }

// DestroyGraph gives a graph up; those instantiated from it stay.
func (a *API) DestroyGraph(g Graph) error { return a.call(graphDestroy, uintptr(g)) }

// DestroyExec gives an instantiated graph up when its launches are done.
func (a *API) DestroyExec(x GraphExec) error { return a.call(graphExecDestroy, uintptr(x)) }

// NodeKinds are the kinds of a graph's nodes (CUgraphNodeType: 0 is a kernel, 1 a copy, 2 a fill, 3 a host function).
func (a *API) NodeKinds(g Graph) ([]int, error) {
	n := new(uintptr)
	if err := a.call(graphGetNodes, uintptr(g), 0, uintptr(unsafe.Pointer(n))); err != nil || *n == 0 {
		return nil, err
	}
	nodes := make([]uintptr, *n)
	if err := a.call(graphGetNodes, uintptr(g), uintptr(unsafe.Pointer(unsafe.SliceData(nodes))), uintptr(unsafe.Pointer(n))); err != nil {
		return nil, err
	}
	kinds := make([]int, len(nodes))
	for i, node := range nodes {
		k := new(int32)
		if err := a.call(graphNodeGetType, node, uintptr(unsafe.Pointer(k))); err != nil {
			return nil, err
		}
		kinds[i] = int(*k)
	}
	return kinds, nil
}

// RetainUntilDestroyed calls the C function destroy with an argument once the graph and all that was instantiated from it
// are gone, on a thread of the driver's; destroy may not call CUDA.
func (a *API) RetainUntilDestroyed(g Graph, destroy, argument uintptr) error {
	const noDestructorSync, move = 1, 1
	o := new(UserObject)
	if err := a.call(userObjectCreate, uintptr(unsafe.Pointer(o)), argument, destroy, 1, noDestructorSync); err != nil {
		return err
	}
	if err := a.call(graphRetainUserObject, uintptr(g), uintptr(*o), 1, move); err != nil {
		_ = a.call(userObjectRelease, uintptr(*o), 1)
		return err
	}
	return nil
}
