/* The CUDA driver, for the little that the ranks of a communicator tell each other through it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "dropin.h"

enum { OK, NOT_READY = 600, NON_BLOCKING = 1, RELAXED = 2, NO_TIMING = 2 };

static struct {
	int (*CtxGetCurrent)(void **);
	int (*CtxSetCurrent)(void *);
	int (*CtxGetDevice)(int *);
	int (*DeviceGet)(int *, int);
	int (*DeviceGetPCIBusId)(char *, int, int);
	int (*DevicePrimaryCtxRetain)(void **, int);
	int (*DevicePrimaryCtxRelease)(int);
	int (*ThreadExchangeStreamCaptureMode)(int *);
	int (*StreamCreate)(void **, unsigned);
	int (*StreamDestroy)(void *);
	int (*StreamQuery)(void *);
	int (*MemAlloc)(uint64_t *, size_t);
	int (*MemFree)(uint64_t);
	int (*MemHostAlloc)(void **, size_t, unsigned);
	int (*MemFreeHost)(void *);
	int (*MemcpyHtoDAsync)(uint64_t, const void *, size_t, void *);
	int (*MemcpyDtoHAsync)(void *, uint64_t, size_t, void *);
	int (*EventCreate)(void **, unsigned);
	int (*EventDestroy)(void *);
	int (*EventRecord)(void *, void *);
	int (*StreamWaitEvent)(void *, void *, unsigned);
	int (*StreamGetCtx)(void *, void **);
} cu;
static const struct {
	const char *name;
	void *slot;
} functions[] = {
	{"cuCtxGetCurrent", &cu.CtxGetCurrent},
	{"cuCtxSetCurrent", &cu.CtxSetCurrent},
	{"cuCtxGetDevice", &cu.CtxGetDevice},
	{"cuDeviceGet", &cu.DeviceGet},
	{"cuDeviceGetPCIBusId", &cu.DeviceGetPCIBusId},
	{"cuDevicePrimaryCtxRetain", &cu.DevicePrimaryCtxRetain},
	{"cuDevicePrimaryCtxRelease_v2", &cu.DevicePrimaryCtxRelease},
	{"cuThreadExchangeStreamCaptureMode", &cu.ThreadExchangeStreamCaptureMode},
	{"cuStreamCreate", &cu.StreamCreate},
	{"cuStreamDestroy_v2", &cu.StreamDestroy},
	{"cuStreamQuery", &cu.StreamQuery},
	{"cuMemAlloc_v2", &cu.MemAlloc},
	{"cuMemFree_v2", &cu.MemFree},
	{"cuMemHostAlloc", &cu.MemHostAlloc},
	{"cuMemFreeHost", &cu.MemFreeHost},
	{"cuMemcpyHtoDAsync_v2", &cu.MemcpyHtoDAsync},
	{"cuMemcpyDtoHAsync_v2", &cu.MemcpyDtoHAsync},
	{"cuEventCreate", &cu.EventCreate},
	{"cuEventDestroy_v2", &cu.EventDestroy},
	{"cuEventRecord", &cu.EventRecord},
	{"cuStreamWaitEvent", &cu.StreamWaitEvent},
	{"cuStreamGetCtx", &cu.StreamGetCtx},
};
static pthread_once_t once = PTHREAD_ONCE_INIT;
static const char *broken;

static void open_driver(void) {
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL); /* NCCL has loaded it */
	if (!driver) broken = "there is no CUDA driver";
	for (size_t i = 0; driver && i < sizeof functions / sizeof *functions; i++) {
		void *f = dlsym(driver, functions[i].name);
		if (!f) broken = "the CUDA driver is older than 11.4";
		memcpy(functions[i].slot, &f, sizeof f);
	}
}

static const char *driver(void) {
	pthread_once(&once, open_driver);
	return broken;
}

const char *weir_nccl_current_device(char bus_id[32], int *ordinal) {
	void *context = NULL;
	if (driver()) return broken;
	if (cu.CtxGetCurrent(&context) != OK || !context || cu.CtxGetDevice(ordinal) != OK) return "no CUDA device is current in this thread";
	return weir_nccl_bus_id(*ordinal, bus_id); /* a CUdevice is its ordinal */
}

const char *weir_nccl_bus_id(int ordinal, char bus_id[32]) {
	int device;
	if (driver()) return broken;
	return cu.DeviceGet(&device, ordinal) == OK && cu.DeviceGetPCIBusId(bus_id, 32, device) == OK ? NULL : "the CUDA driver does not tell the device's PCI bus id";
}

/* Everything here may happen while another stream is captured, in whatever mode. */
const char *weir_nccl_enter(device_room *r, int ordinal, size_t bytes) {
	memset(r, 0, sizeof *r);
	if (driver()) return broken;
	if (cu.DeviceGet(&r->device, ordinal) != OK || cu.DevicePrimaryCtxRetain(&r->context, r->device) != OK) {
		r->context = NULL;
		return "the device's primary context cannot be had";
	}
	cu.CtxGetCurrent(&r->before);
	cu.CtxSetCurrent(r->context);
	r->mode = RELAXED;
	cu.ThreadExchangeStreamCaptureMode(&r->mode);
	r->bytes = bytes;
	if (cu.StreamCreate(&r->stream, NON_BLOCKING) != OK) return "no CUDA stream can be made";
	if (cu.MemAlloc(&r->memory, bytes) != OK || cu.MemHostAlloc(&r->host, bytes, 0) != OK) return "no device memory is left";
	return NULL;
}

void weir_nccl_leave(device_room *r, int idle) {
	if (!r->context) return;
	if (idle && r->host) cu.MemFreeHost(r->host);
	if (idle && r->memory) cu.MemFree(r->memory);
	if (idle && r->stream) cu.StreamDestroy(r->stream);
	cu.ThreadExchangeStreamCaptureMode(&r->mode);
	cu.CtxSetCurrent(r->before);
	if (idle) cu.DevicePrimaryCtxRelease(r->device);
	r->context = NULL;
}

const char *weir_nccl_upload(device_room *r, size_t at, size_t bytes) {
	cu.CtxSetCurrent(r->context); /* another room may have been entered meanwhile */
	return cu.MemcpyHtoDAsync(r->memory + at, (char *)r->host + at, bytes, r->stream) == OK ? NULL : "a copy to the device failed";
}

const char *weir_nccl_download(device_room *r) {
	cu.CtxSetCurrent(r->context);
	return cu.MemcpyDtoHAsync(r->host, r->memory, r->bytes, r->stream) == OK ? NULL : "a copy from the device failed";
}

const char weir_nccl_not_yet[] = "not yet";

const char *weir_nccl_done(device_room *r) {
	int status = cu.StreamQuery(r->stream);
	return status == OK ? NULL : status == NOT_READY ? weir_nccl_not_yet : "the device failed";
}

const char *weir_nccl_new_event(void **event) { return cu.EventCreate(event, NO_TIMING) == OK ? NULL : "no CUDA event can be made"; }

void weir_nccl_end_event(void *event) {
	if (event) cu.EventDestroy(event); /* what waits for it still does */
}

/* join has one event tell of all streams, one after the other: a wait is for what the event was recorded with last. */
static const char *join(void *context, void *event, cudaStream_t *streams, int count, int gather) {
	void *before = NULL, *of;
	int failed = 0;
	cu.CtxGetCurrent(&before);
	if (before != context) cu.CtxSetCurrent(context); /* default streams are the current context's */
	if (!gather) failed = cu.EventRecord(event, streams[0]) != OK;
	for (int i = 1; i < count; i++) {
		if (cu.StreamGetCtx(streams[i], &of) == OK && of != context) continue;
		if (gather) failed = failed || cu.EventRecord(event, streams[i]) != OK;
		failed = failed || cu.StreamWaitEvent(streams[gather ? 0 : i], event, 0) != OK;
	}
	if (before != context) cu.CtxSetCurrent(before);
	return failed ? "the streams of a group call cannot wait for each other: are some of them captured, and others not?" : NULL;
}

const char *weir_nccl_gather(void *context, void *event, cudaStream_t *streams, int count) { return join(context, event, streams, count, 1); }
const char *weir_nccl_scatter(void *context, void *event, cudaStream_t *streams, int count) { return join(context, event, streams, count, 0); }
