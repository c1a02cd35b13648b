package cuda

import (
	"errors"
	"slices"

	"github.com/weir-project/weir/sdk/native/dl"
)

// function numbers the driver functions that plans take, so that finding one on the hot path is an array access.
type function int

const (
	ctxGetCurrent function = iota
	ctxSetCurrent
	ctxSynchronize
	ctxCreate
	ctxEnablePeerAccess
	deviceCanAccessPeer
	primaryRetain
	primaryRelease
	memAlloc
	memFree
	memGetInfo
	memcpyHtoD
	memcpyDtoH
	memcpyHtoDAsync
	memcpyDtoHAsync
	memcpyDtoDAsync
	memsetD8
	memsetD8Async
	memHostAlloc
	memFreeHost
	memHostGetDevicePointer
	memHostRegister
	memHostUnregister
	pointerGetAttribute
	streamCreate
	streamDestroy
	streamSynchronize
	streamQuery
	streamWaitEvent
	streamGetCtx
	streamBeginCapture
	streamEndCapture
	streamIsCapturing
	streamGetCaptureInfo
	streamUpdateCapture
	exchangeCaptureMode
	graphInstantiate
	graphExecUpdate
	graphLaunch
	graphDestroy
	graphExecDestroy
	graphGetNodes
	graphNodeGetType
	graphRetainUserObject
	userObjectCreate
	userObjectRelease
	eventCreate
	eventDestroy
	eventRecord
	eventSynchronize
	eventQuery
	eventElapsedTime
	moduleLoadData
	moduleUnload
	moduleGetFunction
	launchKernel
	occupancy
	funcSetAttribute
	ipcGetMemHandle
	ipcOpenMemHandle
	ipcCloseMemHandle
	memGetGranularity
	memCreate
	memRelease
	memAddressReserve
	memAddressFree
	memMap
	memUnmap
	memSetAccess
	memExport
	memImport
	numFunctions
)

// symbol is how a function is called in the library. An optional one is looked for, and calling it without is an error.
type symbol struct {
	name     string
	optional bool
}

// The names with a version are what the headers of CUDA 11 and later call by the short name.
var symbols = [numFunctions]symbol{
	ctxGetCurrent:           {name: "cuCtxGetCurrent"},
	ctxSetCurrent:           {name: "cuCtxSetCurrent"},
	ctxSynchronize:          {name: "cuCtxSynchronize"},
	ctxCreate:               {name: "cuCtxCreate_v2", optional: true},
	ctxEnablePeerAccess:     {name: "cuCtxEnablePeerAccess", optional: true},
	deviceCanAccessPeer:     {name: "cuDeviceCanAccessPeer", optional: true},
	primaryRetain:           {name: "cuDevicePrimaryCtxRetain"},
	primaryRelease:          {name: "cuDevicePrimaryCtxRelease_v2"},
	memAlloc:                {name: "cuMemAlloc_v2"},
	memFree:                 {name: "cuMemFree_v2"},
	memGetInfo:              {name: "cuMemGetInfo_v2"},
	memcpyHtoD:              {name: "cuMemcpyHtoD_v2"},
	memcpyDtoH:              {name: "cuMemcpyDtoH_v2"},
	memcpyHtoDAsync:         {name: "cuMemcpyHtoDAsync_v2"},
	memcpyDtoHAsync:         {name: "cuMemcpyDtoHAsync_v2"},
	memcpyDtoDAsync:         {name: "cuMemcpyDtoDAsync_v2"},
	memsetD8:                {name: "cuMemsetD8_v2"},
	memsetD8Async:           {name: "cuMemsetD8Async"},
	memHostAlloc:            {name: "cuMemHostAlloc"},
	memFreeHost:             {name: "cuMemFreeHost"},
	memHostGetDevicePointer: {name: "cuMemHostGetDevicePointer_v2", optional: true},
	memHostRegister:         {name: "cuMemHostRegister_v2", optional: true},
	memHostUnregister:       {name: "cuMemHostUnregister", optional: true},
	pointerGetAttribute:     {name: "cuPointerGetAttribute"},
	streamCreate:            {name: "cuStreamCreate"},
	streamDestroy:           {name: "cuStreamDestroy_v2"},
	streamSynchronize:       {name: "cuStreamSynchronize"},
	streamQuery:             {name: "cuStreamQuery"},
	streamWaitEvent:         {name: "cuStreamWaitEvent"},
	streamGetCtx:            {name: "cuStreamGetCtx"},
	streamBeginCapture:      {name: "cuStreamBeginCapture_v2"},
	streamEndCapture:        {name: "cuStreamEndCapture"},
	streamIsCapturing:       {name: "cuStreamIsCapturing"},
	streamGetCaptureInfo:    {name: "cuStreamGetCaptureInfo_v2"},
	streamUpdateCapture:     {name: "cuStreamUpdateCaptureDependencies", optional: true}, // the newer version also has data on edges
	exchangeCaptureMode:     {name: "cuThreadExchangeStreamCaptureMode"},
	graphInstantiate:        {name: "cuGraphInstantiateWithFlags"},
	graphExecUpdate:         {name: "cuGraphExecUpdate"}, // the newer version says more of what is not alike
	graphLaunch:             {name: "cuGraphLaunch"},
	graphDestroy:            {name: "cuGraphDestroy"},
	graphExecDestroy:        {name: "cuGraphExecDestroy"},
	graphGetNodes:           {name: "cuGraphGetNodes"},
	graphNodeGetType:        {name: "cuGraphNodeGetType"},
	graphRetainUserObject:   {name: "cuGraphRetainUserObject"},
	userObjectCreate:        {name: "cuUserObjectCreate"},
	userObjectRelease:       {name: "cuUserObjectRelease"},
	eventCreate:             {name: "cuEventCreate"},
	eventDestroy:            {name: "cuEventDestroy_v2"},
	eventRecord:             {name: "cuEventRecord"},
	eventSynchronize:        {name: "cuEventSynchronize"},
	eventQuery:              {name: "cuEventQuery"},
	eventElapsedTime:        {name: "cuEventElapsedTime"},
	moduleLoadData:          {name: "cuModuleLoadData"},
	moduleUnload:            {name: "cuModuleUnload"},
	moduleGetFunction:       {name: "cuModuleGetFunction"},
	launchKernel:            {name: "cuLaunchKernel"},
	occupancy:               {name: "cuOccupancyMaxActiveBlocksPerMultiprocessor", optional: true},
	funcSetAttribute:        {name: "cuFuncSetAttribute", optional: true},
	ipcGetMemHandle:         {name: "cuIpcGetMemHandle", optional: true},
	ipcOpenMemHandle:        {name: "cuIpcOpenMemHandle_v2", optional: true},
	ipcCloseMemHandle:       {name: "cuIpcCloseMemHandle", optional: true},
	memGetGranularity:       {name: "cuMemGetAllocationGranularity", optional: true},
	memCreate:               {name: "cuMemCreate", optional: true},
	memRelease:              {name: "cuMemRelease", optional: true},
	memAddressReserve:       {name: "cuMemAddressReserve", optional: true},
	memAddressFree:          {name: "cuMemAddressFree", optional: true},
	memMap:                  {name: "cuMemMap", optional: true},
	memUnmap:                {name: "cuMemUnmap", optional: true},
	memSetAccess:            {name: "cuMemSetAccess", optional: true},
	memExport:               {name: "cuMemExportToShareableHandle", optional: true},
	memImport:               {name: "cuMemImportFromShareableHandle", optional: true},
}

// API is the driver as programs that run plans use it. Its methods may be called concurrently. Unless one says
// otherwise it works in the context that is current on the calling thread: lock the goroutine to its thread around a
// sequence of calls.
type API struct {
	*Driver
	address [numFunctions]uintptr
}

// Bind finds the functions of the driver that running plans takes. The error is a *dl.SymbolError: the driver is older
// than CUDA 11.4, the first that has all that are needed.
func (d *Driver) Bind() (*API, error) {
	a := &API{Driver: d}
	for f, s := range symbols {
		address, err := d.lib.Symbol(s.name)
		if err != nil && !s.optional {
			return nil, err
		}
		a.address[f] = address
	}
	return a, nil
}

// Address is the address of one of the functions of Bind, for a Lane; 0 if there is none.
func (a *API) Address(name string) uintptr {
	return a.address[max(0, slices.IndexFunc(symbols[:], func(s symbol) bool { return s.name == name }))]
}

// call calls a function of the driver and turns a failure into an *Error.
//
//go:uintptrescapes
func (a *API) call(f function, args ...uintptr) error {
	if a.address[f] == 0 {
		return &Error{Call: symbols[f].name, Code: NotFound, Name: "CUDA_ERROR_NOT_FOUND", Text: "the driver is too old to have it"}
	}
	if code := int32(dl.Call(a.address[f], args...)); code != success {
		return a.check(symbols[f].name, code)
	}
	return nil
}

// Is reports whether an error is a call that the driver failed with the code.
func Is(err error, code int) bool {
	var failed *Error
	return errors.As(err, &failed) && failed.Code == code
}
