/* weir.h - the C interface of Weir: be a rank, form groups, all-reduce.
 *
 * Link with libweir.so (pkg-config --cflags --libs weir). docs/adopt/c.md begins with an example.
 *
 * Every function but weir_last_error and weir_version returns a weir_result: WEIR_OK, or what went wrong, of which
 * weir_last_error has the words. No argument makes a function crash the process: null pointers, handles that never
 * existed or are closed, counts and enumerators out of range are errors. So is host memory that is not there, but only
 * when it is met: the group has failed then, as the other ranks wait for the call. Pointers to anything else than the
 * buffers of an all-reduce are NULL or right.
 *
 * Threads. Every function may be called from any thread, and several at once. A group takes one call at a time, as an
 * NCCL communicator does: one that is begun while another runs is WEIR_BUSY. All ranks of a group make the same calls
 * on it in the same order.
 *
 * Fork. The library has threads of its own from the moment it is loaded, and a child of fork() has none of them: there
 * every function is WEIR_FORKED. A child that executes another program is not concerned.
 *
 * Signals. The library installs handlers for SIGSEGV, SIGBUS, SIGFPE, SIGPIPE and SIGURG which pass on what does not
 * concern its own code, and sets SA_ONSTACK on handlers that exist. A program that installs handlers later for one of
 * these uses SA_ONSTACK and calls the one before. The library cannot be unloaded; dlclose leaves it.
 */
#ifndef WEIR_H
#define WEIR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define WEIR_API __attribute__((visibility("default")))
#else
#define WEIR_API
#endif

/* A process's membership in a job, and a group of its ranks. 0 is never one, and one that was closed never comes back. */
typedef uint64_t weir_session;
typedef uint64_t weir_group;

typedef enum weir_result {
	WEIR_OK = 0,
	WEIR_ERROR = 1,        /* none of the following */
	WEIR_INVALID = 2,      /* an argument that this rank alone can see to be wrong */
	WEIR_CLOSED = 3,       /* a handle that is not open, or no longer */
	WEIR_BUSY = 4,         /* another call on the group is in progress */
	WEIR_TIMEOUT = 5,      /* timeout_ms is over */
	WEIR_GROUP_FAILED = 6, /* the group has failed: so does every later call on it; weir_close is what is left */
	WEIR_FORKED = 7,       /* this process was forked after the library was loaded */
	WEIR_PANIC = 8         /* a fault in the library itself; please report it */
} weir_result;

typedef enum weir_data_type {
	WEIR_FLOAT32 = 0,
	WEIR_FLOAT64 = 1,
	WEIR_FLOAT16 = 2,
	WEIR_BFLOAT16 = 3,
	WEIR_INT8 = 4,
	WEIR_UINT8 = 5,
	WEIR_INT32 = 6,
	WEIR_INT64 = 7
} weir_data_type;

/* Sum and product of integers wrap around. Minimum and maximum ignore NaN as fmin and fmax do. */
typedef enum weir_op { WEIR_SUM = 0, WEIR_PROD = 1, WEIR_MIN = 2, WEIR_MAX = 3, WEIR_AVG = 4 } weir_op;

typedef enum weir_memory { WEIR_HOST = 0, WEIR_CUDA = 1 } weir_memory;

/* A request class: what is decided once for a group. */
typedef struct weir_class {
	int32_t memory;    /* weir_memory */
	int32_t data_type; /* weir_data_type */
	int32_t op;        /* weir_op */
	int32_t captured;  /* 1: calls on a stream that is being captured in a CUDA graph, 0: others */
} weir_class;

/* Where to join and as what. Begin with WEIR_OPTIONS_INIT. What is left as it is comes from the environment, where
 * `weir run` has put it. */
typedef struct weir_options {
	size_t size;        /* sizeof(weir_options) */
	const char *socket; /* of the agent; NULL: WEIR_AGENT_SOCKET */
	int32_t rank;       /* from 0, or WEIR_ANY_RANK(n); used if world_size is not 0 */
	int32_t world_size; /* number of ranks; 0: WEIR_RANK and WEIR_WORLD_SIZE */
	const char *device; /* the GPU: an index as CUDA counts in this process, a UUID, a PCI bus id, "auto" (rank modulo
	                       their number); NULL: WEIR_DEVICE; "" or neither: none */
	int64_t timeout_ms; /* bound of the wait for the other ranks; 0: the agent's own (group.join_deadline) */
} weir_options;

/* Has the agent choose: rank n if no process is it yet, else the lowest that none is. weir_rank of weir_world tells which. */
#define WEIR_ANY_RANK(n) (-1 - (int32_t)(n))

#define WEIR_OPTIONS_INIT {sizeof(weir_options), NULL, 0, 0, NULL, 0}

/* timeout_ms in what follows bounds the wait for the other ranks; 0 leaves it to the agent's deadlines. When it is over
 * the request is withdrawn, unless all ranks have made it: then it is carried through. */

/* weir_join joins the job of the agent and waits until every rank has. options may be NULL. */
WEIR_API weir_result weir_join(const weir_options *options, weir_session *session);

/* weir_leave closes all groups of the session and leaves the job; it waits for nobody. While a call on one of the groups
 * is in progress it is WEIR_BUSY and the session stays open. */
WEIR_API weir_result weir_leave(weir_session session);

/* weir_world is the group of all ranks. */
WEIR_API weir_result weir_world(weir_session session, weir_group *group);

/* weir_new_group makes a group of some ranks, named by their rank in the group of all, in the order of the new group.
 * Every member calls it with the same list, and waits for the others; who is no member does not call it. */
WEIR_API weir_result weir_new_group(weir_session session, const int32_t *ranks, int32_t count, int64_t timeout_ms, weir_group *group);

/* weir_split parts a group by color, in order of key and then rank. All ranks of the group call it. One that gives a
 * negative color is in none of the new groups and gets 0. */
WEIR_API weir_result weir_split(weir_group group, int32_t color, int32_t key, int64_t timeout_ms, weir_group *part);

/* weir_close leaves a group. CUDA graphs that hold calls of it stay usable. */
WEIR_API weir_result weir_close(weir_group group);

/* weir_abort makes a group fail on all ranks, with a reason: calls that wait return, and what waits on the device leaves. It
 * may be called while a call is in progress and waits for nobody; weir_close is what is left. */
WEIR_API weir_result weir_abort(weir_group group, const char *reason);

/* weir_rank and weir_size are this process's rank in the group, and the number of its ranks. */
WEIR_API weir_result weir_rank(weir_group group, int32_t *rank);
WEIR_API weir_result weir_size(weir_group group, int32_t *size);

/* weir_ranks writes the members by their rank in the group of all. count is the number of places and must be the size
 * of the group. */
WEIR_API weir_result weir_ranks(weir_group group, int32_t *ranks, int32_t count);

/* weir_warm decides request classes before their first call. All ranks of the group call it with the same classes in the
 * same order. A captured class must be decided before a capture in which it is called. */
WEIR_API weir_result weir_warm(weir_group group, const weir_class *classes, int32_t count, int64_t timeout_ms);

/* weir_backend writes the name of the backend that serves calls of a class and byte count, cut to size - 1 bytes and ended
 * by 0; "" if none does or the class has not been decided. It is the same on every rank. */
WEIR_API weir_result weir_backend(weir_group group, const weir_class *of, int64_t bytes, char *name, size_t size);

/* weir_all_reduce combines count elements of host memory at src over all ranks into every rank's dst, and returns when dst
 * holds the result. dst and src are the same or do not overlap; both are aligned to the size of an element. The first call
 * of a data type and op is decided for the whole group, which takes milliseconds. */
WEIR_API weir_result weir_all_reduce(weir_group group, void *dst, const void *src, int64_t count, weir_data_type data_type, weir_op op);

/* weir_all_reduce_device is the same for memory of the device that the rank joined with, in the order of a stream (a
 * cudaStream_t or CUstream of the device's primary context; NULL: the legacy default stream). It returns when the work
 * is enqueued. The first call of a data type and op takes seconds if a library must be tried. If the stream is being captured the
 * call becomes part of the graph; its class must have been decided by weir_warm. It leaves the thread's current context
 * as it was. What goes wrong after it has returned makes the group fail: see weir_group_error. */
WEIR_API weir_result weir_all_reduce_device(weir_group group, void *dst, const void *src, int64_t count, weir_data_type data_type, weir_op op, void *stream);

/* weir_group_error is WEIR_OK, or WEIR_GROUP_FAILED with the reason in weir_last_error. It waits for nothing, neither for a
 * call in progress nor for the device, and may be polled. */
WEIR_API weir_result weir_group_error(weir_group group);

/* weir_exchange gives every rank's bytes to every rank, by rank: all has room for bytes times the size of the group. All
 * ranks call it with the same bytes, at most 64 KiB. The agent passes them on, so it is for set-up and not for data. bytes of
 * 0 is a barrier; data and all may then be NULL. */
WEIR_API weir_result weir_exchange(weir_group group, const void *data, size_t bytes, void *all, int64_t timeout_ms);

/* weir_last_error is the text of the last error in this thread, one line; "" if there was none. It stays until the thread's
 * next error. */
WEIR_API const char *weir_last_error(void);

/* weir_version is the version of the library, such as "0.1.0". */
WEIR_API const char *weir_version(void);

#ifdef __cplusplus
}
#endif

#endif
