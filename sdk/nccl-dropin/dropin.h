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
typedef struct { size_t size; unsigned magic, version; int blocking; } ncclConfig_t; /* as it begins, in every version */
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
const char *weir_nccl_new_event(void **event); /* in the context that is current */
void weir_nccl_end_event(void *event);
/* What is enqueued on the first stream comes behind what is on the others (gather), or the others behind it. Streams of another context
 * than the one given, which is the event's, are left out. */
const char *weir_nccl_gather(void *context, void *event, cudaStream_t *streams, int count);
const char *weir_nccl_scatter(void *context, void *event, cudaStream_t *streams, int count);

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
void weir_nccl_begin_join(int rather, const char bus_id[32]); /* on a thread of its own, if there is an agent; the first call counts */
void weir_nccl_self(own_rank *self); /* who this process is or would be; waits for nothing */
const char *weir_nccl_joined(weir_session *, int32_t *rank, int device); /* waits for the join; rank is a wish before; an error with its words */

/* who.c: which process a rank is. */
typedef struct {
	uint64_t space, born; /* inode of its PID namespace, 0 if that is not known; when it was started */
	int32_t pid;
} who;
void weir_nccl_who(who *w);                               /* this process */
int weir_nccl_has_ended(const who *w, const who *own);    /* for certain; 0 if it lives or cannot be seen from here */

/* A communicator that is made, whose ranks agree, or have agreed that Weir serves it. */
typedef struct served {
	struct served *next;   /* in the table; of those that are made in one group call, before they are in it */
	ncclComm_t comm;       /* NULL: it is not there yet, or has ended */
	pthread_mutex_t alive; /* held while comm is given to NCCL by another thread than the program's, and to end it */
	weir_group group;      /* 0: none yet, or none */
	uint32_t types;        /* bit t: sums of NCCL's type t are Weir's; 0 until all have agreed */
	int most;              /* sums of one group call that are Weir's; with more all of them are NCCL's */
	int state;             /* AGREED from the start if the program waits in the function that makes it */
	const char *error;     /* of BROKEN */
	void *context, *event; /* of its device, to join the streams of a group call; NULL: none */
	int grouped;           /* sums of the group call that goes on; below 0 when they are NCCL's. Before: it is made in one */

	uint64_t identity; /* the same on all ranks, and another than that of communicators made before; 0: not known */
	int ranks, rank;   /* as the program says; 0 of a part */
	int blocking, several; /* with several, other ranks of it are made in the same group call */
	char bus_id[32];       /* of the device that was current; "" if there was none */
	const char *why;       /* it is NCCL's, and this is why; NULL: its ranks agree */

	/* Where NCCL writes a part that ncclCommSplit makes, where the program looks for it or a communicator, and whose part it is. */
	ncclComm_t part, *wanted, parent;
	struct served *more;
} served;
enum { AGREED, AGREEING, BROKEN };

/* known.c: what is known of every communicator, served or not. */
typedef struct {
	uint64_t identity;
	int blocking;
} origin;
uint64_t weir_nccl_identity(const void *data, size_t size);
void weir_nccl_know(ncclComm_t comm, uint64_t identity, int blocking);
void weir_nccl_forget(ncclComm_t comm);
origin weir_nccl_origin(ncclComm_t comm);
uint64_t weir_nccl_child(ncclComm_t parent, uint64_t what); /* the identity of the next communicator that comes of one */

/* make.c: communicators that are made. Those of a group call come to their end with it. */
void weir_nccl_about_to_end(served *made);                    /* the group call */
ncclResult_t weir_nccl_made(ncclResult_t r, served *made); /* all of a call, which NCCL has answered so */

/* agree.c: whether all ranks of a communicator may use Weir. */
const char *weir_nccl_agree(served *s); /* fills group and types; an error is the end of the communicator, if it is not … */
extern const char weir_nccl_ended[];    /* … that the program has ended it meanwhile */
void weir_nccl_agree_all(served **all, int count, void (*done)(served *, const char *error)); /* in order */
void weir_nccl_drop(served *s); /* closes what agreement has made */

/* turn.c: of the agreements of a process one at a time forms a group at the agent, the same on all ranks. */
typedef struct turn {
	struct turn *next;
	uint64_t identity;
	int has;
} turn;
void weir_nccl_line_up(turn *t);
int weir_nccl_try_turn(turn *t); /* whether it has the turn; it keeps it until … */
void weir_nccl_end_turn(turn *t, int leave); /* … this; to leave the line, or to try again */

/* tell.c: one line for every communicator, by its rank 0. */
void weir_nccl_tell_served(int ranks, uint32_t types);
void weir_nccl_tell_alone(int ranks, const char *why);

/* later.c: communicators that are not ready when the function that makes them returns. */
ncclResult_t weir_nccl_agree_later(served **all, int count); /* on a thread of its own; what the function is to return */
ncclResult_t weir_nccl_splitting(ncclComm_t parent); /* gives the program the parts that have come; IN_PROGRESS if some have not */
void weir_nccl_forget_parts(ncclComm_t parent);      /* it ends */

/* group.c: calls between ncclGroupStart and ncclGroupEnd. */
extern int weir_nccl_groups; /* of all threads */
int weir_nccl_in_group(void);
static inline int in_group(void) { return __builtin_expect(__atomic_load_n(&weir_nccl_groups, __ATOMIC_RELAXED), 0) && weir_nccl_in_group(); }
void weir_nccl_make_in_group(served *s);
ncclResult_t weir_nccl_sum_in_group(served *s, const void *src, void *dst, size_t count, int type, cudaStream_t stream);
ncclResult_t weir_nccl_stream_in_group(cudaStream_t stream);

/* dropin.c */
void weir_nccl_keep(served *s); /* makes it known by its communicator */
ncclResult_t weir_nccl_report(ncclResult_t r, const char *text); /* for ncclGetLastError */
void weir_nccl_no_report(void);
void weir_nccl_stop(ncclComm_t comm, const char *why);
ncclResult_t weir_nccl_serve(const served *s, const void *src, void *dst, size_t count, int type, cudaStream_t stream);

/* Files say what goes on, once a process or communicator, on standard error. */
void weir_nccl_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
int64_t weir_nccl_now_ms(void);

/* The real library's functions that are used here: trampolines of forward.S. */
ncclResult_t real_ncclAllGather(const void *, void *, size_t, int, ncclComm_t, cudaStream_t);
ncclResult_t real_ncclAllReduce(const void *, void *, size_t, int, int, ncclComm_t, cudaStream_t);
ncclResult_t real_ncclCommAbort(ncclComm_t);
ncclResult_t real_ncclCommCount(ncclComm_t, int *);
ncclResult_t real_ncclCommCuDevice(ncclComm_t, int *);
ncclResult_t real_ncclCommDestroy(ncclComm_t);
ncclResult_t real_ncclCommGetAsyncError(ncclComm_t, ncclResult_t *);
ncclResult_t real_ncclCommGrow(ncclComm_t, int, const ncclUniqueId *, int, ncclComm_t *, ncclConfig_t *);
ncclResult_t real_ncclCommInitAll(ncclComm_t *, int, const int *);
ncclResult_t real_ncclCommInitRank(ncclComm_t *, int, ncclUniqueId, int);
ncclResult_t real_ncclCommInitRankConfig(ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *);
ncclResult_t real_ncclCommInitRankScalable(ncclComm_t *, int, int, int, ncclUniqueId *, ncclConfig_t *);
ncclResult_t real_ncclCommRevoke(ncclComm_t, int);
ncclResult_t real_ncclCommShrink(ncclComm_t, int *, int, ncclComm_t *, ncclConfig_t *, int);
ncclResult_t real_ncclCommSplit(ncclComm_t, int, int, ncclComm_t *, ncclConfig_t *);
ncclResult_t real_ncclCommUserRank(ncclComm_t, int *);
const char *real_ncclGetLastError(ncclComm_t);
ncclResult_t real_ncclGetVersion(int *);
ncclResult_t real_ncclGroupEnd(void);
ncclResult_t real_ncclGroupSimulateEnd(void *);
ncclResult_t real_ncclGroupStart(void);

#define NCCL __attribute__((visibility("default")))

#endif
