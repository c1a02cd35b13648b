/* What the files of the drop-in share. Nothing here but the nccl* functions is visible outside the library. */
#ifndef WEIR_NCCL_DROPIN_H
#define WEIR_NCCL_DROPIN_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "weir.h"

/* NCCL's ABI, as far as it is used. */
typedef struct ncclComm *ncclComm_t;
typedef void *cudaStream_t;
typedef struct { char internal[128]; } ncclUniqueId;
typedef struct ncclConfig ncclConfig_t;
typedef int ncclResult_t;
enum { SUCCESS, CUDA_ERROR, SYSTEM_ERROR, INTERNAL_ERROR, INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR, IN_PROGRESS };
enum { NCCL_UINT8 = 1, NCCL_FLOAT16 = 6, NCCL_FLOAT32 = 7, NCCL_BFLOAT16 = 9, NCCL_TYPES = 10 };
enum { NCCL_SUM = 0, NCCL_SHRINK_ABORT = 1 };

/* real.c: the real library. */
int weir_nccl_real(void); /* opens it at the first call; whether there is one */
const char *weir_nccl_real_path(void);
int weir_nccl_is_real(const void *code); /* whether code of the real library is at an address */

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
void weir_nccl_leave(device_room *room, int idle); /* what may still run in a room that is not idle keeps its memory */
const char *weir_nccl_upload(device_room *room, size_t at, size_t bytes);
const char *weir_nccl_download(device_room *room); /* all of it, behind what is on the stream; it waits for nothing */
const char *weir_nccl_done(device_room *room);     /* NULL: it is; weir_nccl_not_yet: it is not */
extern const char weir_nccl_not_yet[];

/* weir.c: this process as a rank. */
typedef struct {
	weir_result (*join)(const weir_options *, weir_session *);
	weir_result (*leave)(weir_session);
	weir_result (*world)(weir_session, weir_group *);
	weir_result (*rank)(weir_group, int32_t *);
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
	uint64_t process;    /* the same for all ranks of one process */
	int32_t rank, world; /* at the agent; below 0 before it has chosen */
	char why[160];       /* this process is none of its ranks, or what went wrong */
} own_rank;
void weir_nccl_begin_join(int rather); /* on a thread of its own, if there is an agent; the first call counts */
void weir_nccl_self(own_rank *self); /* who this process is or would be; waits for nothing */
const char *weir_nccl_joined(weir_session *, int32_t *rank, int device); /* waits for the join; rank is a wish before; an error with its words */

/* who.c: which process a rank is. */
typedef struct {
	uint64_t space, born; /* inode of its PID namespace, 0 if that is not known; when it was started */
	int32_t pid;
} who;
void weir_nccl_who(who *w);                               /* this process */
int weir_nccl_has_ended(const who *w, const who *own);    /* for certain; 0 if it lives or cannot be seen from here */

/* A communicator whose ranks agree, or have agreed that Weir serves it. */
typedef struct served {
	struct served *next;
	ncclComm_t comm;       /* NULL: it has ended */
	pthread_mutex_t alive; /* held while comm is given to NCCL by another thread than the program's, and to end it */
	weir_group group;      /* 0: none yet, or none */
	uint32_t types;        /* bit t: sums of NCCL's type t are Weir's; 0 until all have agreed */
	int state;             /* AGREED from the start if the program waits in the function that makes it */
	const char *error;     /* of BROKEN */

	/* A part that ncclCommSplit has yet to make: where it will be, where the program looks for it, and whose it is. */
	ncclComm_t part, *wanted, parent;
	struct served *more;
} served;
enum { AGREED, AGREEING, BROKEN };

/* agree.c: whether all ranks of a communicator may use Weir. */
const char *weir_nccl_agree(served *s); /* fills group and types; an error is the end of the communicator, if it is not … */
extern const char weir_nccl_ended[];    /* … that the program has ended it meanwhile */

/* later.c: communicators that are not ready when the function that makes them returns. */
ncclResult_t weir_nccl_agree_later(served *s);               /* on a thread of its own; what the function is to return */
ncclResult_t weir_nccl_split_later(served *s);               /* the same for a part that is still to come */
ncclResult_t weir_nccl_splitting(ncclComm_t parent); /* gives the program the parts that have come; IN_PROGRESS if some have not */
void weir_nccl_forget_parts(ncclComm_t parent);      /* it ends */

void weir_nccl_keep(served *s); /* dropin.c: makes it known by its communicator */

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
