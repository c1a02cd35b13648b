/* What the files of the drop-in share. Nothing here but the nccl* functions is visible outside the library. */
#ifndef WEIR_NCCL_DROPIN_H
#define WEIR_NCCL_DROPIN_H

#include <stddef.h>
#include <stdint.h>

#include "weir.h"

/* NCCL's ABI, as far as it is used. */
typedef struct ncclComm *ncclComm_t;
typedef void *cudaStream_t;
typedef struct { char internal[128]; } ncclUniqueId;
typedef struct {
	size_t size;
	unsigned magic, version;
	int blocking;
} ncclConfig_t; /* and more */
enum { CONFIG_MAGIC = 0xcafebeef };
typedef int ncclResult_t;
enum { SUCCESS, CUDA_ERROR, SYSTEM_ERROR, INTERNAL_ERROR, INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR, IN_PROGRESS };
enum { NCCL_UINT8 = 1, NCCL_FLOAT16 = 6, NCCL_FLOAT32 = 7, NCCL_BFLOAT16 = 9, NCCL_TYPES = 10 };
enum { NCCL_SUM = 0, NCCL_SHRINK_ABORT = 1 };

/* real.c: the real library. */
int weir_nccl_real(void); /* opens it at the first call; whether there is one */
const char *weir_nccl_real_path(void);

/* cuda.c: the driver, in the context that a communicator uses. */
typedef struct {
	void *context, *before, *stream, *host;
	uint64_t memory;
	size_t bytes;
	int device, mode;
} device_room;
const char *weir_nccl_current_device(char bus_id[32], int *ordinal); /* of this thread; an error if there is none */
const char *weir_nccl_bus_id(int device, char bus_id[32]);
const char *weir_nccl_enter(device_room *room, int device, size_t bytes);
void weir_nccl_leave(device_room *room);
const char *weir_nccl_upload(device_room *room, size_t at, size_t bytes);
const char *weir_nccl_download(device_room *room, int64_t timeout_ms); /* all of it, behind what is on the stream */

/* weir.c: this process as a rank. */
typedef struct {
	weir_result (*join)(const weir_options *, weir_session *);
	weir_result (*leave)(weir_session);
	weir_result (*new_group)(weir_session, const int32_t *, int32_t, int64_t, weir_group *);
	weir_result (*close)(weir_group);
	weir_result (*abort)(weir_group, const char *);
	weir_result (*warm)(weir_group, const weir_class *, int32_t, int64_t);
	weir_result (*backend)(weir_group, const weir_class *, int64_t, char *, size_t);
	weir_result (*all_reduce_device)(weir_group, void *, const void *, int64_t, weir_data_type, weir_op, void *);
	weir_result (*group_error)(weir_group);
	const char *(*last_error)(void);
	const char *(*version)(void);
} weir_library;
extern weir_library weir_nccl_weir; /* filled when weir_nccl_joined has said so */

typedef struct {
	uint64_t agent;      /* the same for all ranks of one agent on one host; 0: there is none */
	int32_t rank, world; /* at the agent */
	char why[160];       /* this process is none of its ranks, or what went wrong */
} own_rank;
void weir_nccl_begin_join(void);                       /* on a thread of its own, if there is an agent; the first call counts */
void weir_nccl_self(own_rank *self, int device);        /* who this process is or would be; waits for nothing */
const char *weir_nccl_joined(weir_session *, int device); /* waits for the join; an error with its words */

/* agree.c: whether all ranks of a communicator may use Weir. */
typedef struct served {
	struct served *next;
	ncclComm_t comm; /* NULL: it has ended */
	weir_group group;
	uint32_t types; /* bit t: sums of NCCL's type t are Weir's */
} served;
const char *weir_nccl_agree(ncclComm_t comm, served **out); /* an error is the end of the communicator */

/* Files say what goes on, once a process or communicator, on standard error. */
void weir_nccl_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
int64_t weir_nccl_now_ms(void);

/* The real library's functions that are used here: trampolines of forward.S. */
ncclResult_t real_ncclAllReduce(const void *, void *, size_t, int, int, ncclComm_t, cudaStream_t);
ncclResult_t real_ncclCommAbort(ncclComm_t);
ncclResult_t real_ncclCommDestroy(ncclComm_t);
ncclResult_t real_ncclCommGetAsyncError(ncclComm_t, ncclResult_t *);
ncclResult_t real_ncclCommInitRank(ncclComm_t *, int, ncclUniqueId, int);
ncclResult_t real_ncclCommInitRankConfig(ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *);
ncclResult_t real_ncclCommInitRankScalable(ncclComm_t *, int, int, int, ncclUniqueId *, ncclConfig_t *);
ncclResult_t real_ncclCommRevoke(ncclComm_t, int);
ncclResult_t real_ncclCommShrink(ncclComm_t, int *, int, ncclComm_t *, ncclConfig_t *, int);
ncclResult_t real_ncclCommSplit(ncclComm_t, int, int, ncclComm_t *, ncclConfig_t *);
const char *real_ncclGetLastError(ncclComm_t);
ncclResult_t real_ncclGroupEnd(void);
ncclResult_t real_ncclGroupSimulateEnd(void *);
ncclResult_t real_ncclGroupStart(void);
ncclResult_t real_ncclAllGather(const void *, void *, size_t, int, ncclComm_t, cudaStream_t);
ncclResult_t real_ncclCommCount(ncclComm_t, int *);
ncclResult_t real_ncclCommCuDevice(ncclComm_t, int *);
ncclResult_t real_ncclCommUserRank(ncclComm_t, int *);
ncclResult_t real_ncclGetVersion(int *);

#endif
