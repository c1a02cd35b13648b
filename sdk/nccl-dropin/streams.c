/* Functions that put work on a stream and are NCCL's. In a group call their streams are told, since all its streams wait for each other. */
#include "dropin.h"

#define WORK(name, parameters, ...)                                                        \
	ncclResult_t real_##name parameters;                                               \
	NCCL ncclResult_t name parameters {                                                \
		ncclResult_t r = in_group() ? weir_nccl_stream_in_group(stream) : SUCCESS; \
		return r == SUCCESS ? real_##name(__VA_ARGS__) : r;                        \
	}

WORK(ncclAllGather, (const void *src, void *dst, size_t count, int type, ncclComm_t comm, cudaStream_t stream), src, dst, count, type, comm, stream)
WORK(ncclAlltoAll, (const void *src, void *dst, size_t count, int type, ncclComm_t comm, cudaStream_t stream), src, dst, count, type, comm, stream)
WORK(ncclBcast, (void *data, size_t count, int type, int root, ncclComm_t comm, cudaStream_t stream), data, count, type, root, comm, stream)
WORK(ncclBroadcast, (const void *src, void *dst, size_t count, int type, int root, ncclComm_t comm, cudaStream_t stream), src, dst, count, type, root, comm, stream)
WORK(ncclGather, (const void *src, void *dst, size_t count, int type, int root, ncclComm_t comm, cudaStream_t stream), src, dst, count, type, root, comm, stream)
WORK(ncclPutSignal, (const void *src, size_t count, int type, int peer, void *window, size_t at, int signal, int context, unsigned flags, ncclComm_t comm, cudaStream_t stream),
	src, count, type, peer, window, at, signal, context, flags, comm, stream)
WORK(ncclRecv, (void *dst, size_t count, int type, int peer, ncclComm_t comm, cudaStream_t stream), dst, count, type, peer, comm, stream)
WORK(ncclReduce, (const void *src, void *dst, size_t count, int type, int op, int root, ncclComm_t comm, cudaStream_t stream), src, dst, count, type, op, root, comm, stream)
WORK(ncclReduceScatter, (const void *src, void *dst, size_t count, int type, int op, ncclComm_t comm, cudaStream_t stream), src, dst, count, type, op, comm, stream)
WORK(ncclScatter, (const void *src, void *dst, size_t count, int type, int root, ncclComm_t comm, cudaStream_t stream), src, dst, count, type, root, comm, stream)
WORK(ncclSend, (const void *src, size_t count, int type, int peer, ncclComm_t comm, cudaStream_t stream), src, count, type, peer, comm, stream)
WORK(ncclSignal, (int peer, int signal, int context, unsigned flags, ncclComm_t comm, cudaStream_t stream), peer, signal, context, flags, comm, stream)
WORK(ncclWaitSignal, (int count, void *signals, ncclComm_t comm, cudaStream_t stream), count, signals, comm, stream)
