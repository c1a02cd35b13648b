//go:build cgo

/* What must not reach Go: a process that was forked has none of Go's threads, so a call into Go would never return. Here too
 * is what belongs to the calling C thread, its last error. */
#define _GNU_SOURCE
#include "weir.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "_cgo_export.h"
#include "text.h"

/* alive is 1 in the process that loaded the library. The kernel empties its page in a child, also in one that was made without
 * fork(); where it cannot, pthread_atfork does it. */
static volatile char fallback = 1;
static volatile char *alive = &fallback;

static void in_child(void) { *alive = 0; }

/* The text is allocated, since the library's thread-local memory comes from the little that the loader keeps for those that
 * are loaded late. */
static __thread char *text;
static pthread_key_t text_key;

__attribute__((constructor)) static void loaded(void)
{
	void *page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page != MAP_FAILED) {
		*(char *)page = 1;
#ifdef MADV_WIPEONFORK
		(void)madvise(page, (size_t)sysconf(_SC_PAGESIZE), MADV_WIPEONFORK);
#endif
		alive = page;
	}
	(void)pthread_atfork(NULL, NULL, in_child);
	(void)pthread_key_create(&text_key, free);
}

/* room is where this thread's errors are written; NULL if there is no memory for it. */
static char *room(void)
{
	if (text == NULL && (text = calloc(1, WEIR_TEXT)) != NULL)
		(void)pthread_setspecific(text_key, text);
	return text;
}

static weir_result fail(weir_result code, const char *why)
{
	char *to = room();
	if (to != NULL)
		strncpy(to, why, WEIR_TEXT - 1);
	return code;
}

/* ENTER ends a call that must not reach Go. */
#define ENTER(name)                                                                                                     \
	do {                                                                                                            \
		if (__builtin_expect(*alive == 0, 0))                                                                   \
			return fail(WEIR_FORKED, name ": this process was forked from one that had loaded libweir.so; " \
			                              "load it and join after the fork, or start the program anew");    \
	} while (0)

#define REFUSE_IF(wrong, why)                            \
	do {                                             \
		if (wrong)                               \
			return fail(WEIR_INVALID, why); \
	} while (0)

weir_result weir_join(const weir_options *options, weir_session *session)
{
	weir_options o = WEIR_OPTIONS_INIT;
	ENTER("weir_join");
	REFUSE_IF(session == NULL, "weir_join: session is NULL");
	*session = 0;
	if (options != NULL) {
		REFUSE_IF(options->size != sizeof o, "weir_join: options.size is not sizeof(weir_options) of this library; begin with WEIR_OPTIONS_INIT of its weir.h");
		o = *options;
	}
	REFUSE_IF(o.timeout_ms < 0, "weir_join: timeout_ms is negative");
	/* Go has its own copy of the environment from when the library was loaded. */
	if (o.socket == NULL)
		o.socket = getenv("WEIR_AGENT_SOCKET");
	if (o.device == NULL)
		o.device = getenv("WEIR_DEVICE");
	return weirJoin((char *)o.socket, o.rank, o.world_size, getenv("WEIR_RANK"), getenv("WEIR_WORLD_SIZE"), (char *)o.device, o.timeout_ms, session, room());
}

weir_result weir_leave(weir_session session)
{
	ENTER("weir_leave");
	return weirLeave(session, room());
}

weir_result weir_world(weir_session session, weir_group *group)
{
	ENTER("weir_world");
	REFUSE_IF(group == NULL, "weir_world: group is NULL");
	*group = 0;
	return weirWorld(session, group, room());
}

weir_result weir_new_group(weir_session session, const int32_t *ranks, int32_t count, int64_t timeout_ms, weir_group *group)
{
	ENTER("weir_new_group");
	REFUSE_IF(group == NULL, "weir_new_group: group is NULL");
	*group = 0;
	REFUSE_IF(ranks == NULL, "weir_new_group: ranks is NULL");
	REFUSE_IF(count <= 0, "weir_new_group: count is not positive");
	REFUSE_IF(timeout_ms < 0, "weir_new_group: timeout_ms is negative");
	return weirNewGroup(session, (int32_t *)ranks, count, timeout_ms, group, room());
}

weir_result weir_split(weir_group group, int32_t color, int32_t key, int64_t timeout_ms, weir_group *part)
{
	ENTER("weir_split");
	REFUSE_IF(part == NULL, "weir_split: part is NULL");
	*part = 0;
	REFUSE_IF(timeout_ms < 0, "weir_split: timeout_ms is negative");
	return weirSplit(group, color, key, timeout_ms, part, room());
}

weir_result weir_close(weir_group group)
{
	ENTER("weir_close");
	return weirClose(group, room());
}

weir_result weir_abort(weir_group group, const char *reason)
{
	ENTER("weir_abort");
	REFUSE_IF(reason == NULL, "weir_abort: reason is NULL");
	return weirAbort(group, (char *)reason, room());
}

weir_result weir_rank(weir_group group, int32_t *rank)
{
	ENTER("weir_rank");
	REFUSE_IF(rank == NULL, "weir_rank: rank is NULL");
	return weirRank(group, rank, room());
}

weir_result weir_size(weir_group group, int32_t *size)
{
	ENTER("weir_size");
	REFUSE_IF(size == NULL, "weir_size: size is NULL");
	return weirSize(group, size, room());
}

weir_result weir_ranks(weir_group group, int32_t *ranks, int32_t count)
{
	ENTER("weir_ranks");
	REFUSE_IF(ranks == NULL, "weir_ranks: ranks is NULL");
	return weirRanks(group, ranks, count, room());
}

weir_result weir_warm(weir_group group, const weir_class *classes, int32_t count, int64_t timeout_ms)
{
	ENTER("weir_warm");
	REFUSE_IF(classes == NULL, "weir_warm: classes is NULL");
	REFUSE_IF(count <= 0, "weir_warm: count is not positive");
	REFUSE_IF(timeout_ms < 0, "weir_warm: timeout_ms is negative");
	return weirWarm(group, (weir_class *)classes, count, timeout_ms, room());
}

weir_result weir_backend(weir_group group, const weir_class *of, int64_t bytes, char *name, size_t size)
{
	ENTER("weir_backend");
	REFUSE_IF(of == NULL, "weir_backend: class is NULL");
	REFUSE_IF(name == NULL || size == 0, "weir_backend: there is no room for the name");
	name[0] = 0;
	return weirBackend(group, (weir_class *)of, bytes, name, size, room());
}

weir_result weir_all_reduce(weir_group group, void *dst, const void *src, int64_t count, weir_data_type data_type, weir_op op)
{
	ENTER("weir_all_reduce");
	return weirAllReduce(group, (uintptr_t)dst, (uintptr_t)src, count, (int32_t)data_type, (int32_t)op, room());
}

weir_result weir_all_reduce_device(weir_group group, void *dst, const void *src, int64_t count, weir_data_type data_type, weir_op op, void *stream)
{
	ENTER("weir_all_reduce_device");
	return weirAllReduceDevice(group, (uintptr_t)dst, (uintptr_t)src, count, (int32_t)data_type, (int32_t)op, (uintptr_t)stream, room());
}

weir_result weir_group_error(weir_group group)
{
	ENTER("weir_group_error");
	return weirGroupError(group, room());
}

weir_result weir_exchange(weir_group group, const void *data, size_t bytes, void *all, int64_t timeout_ms)
{
	ENTER("weir_exchange");
	REFUSE_IF(bytes > 0 && data == NULL, "weir_exchange: data is NULL");
	REFUSE_IF(bytes > 0 && all == NULL, "weir_exchange: all is NULL");
	REFUSE_IF(bytes > WEIR_EXCHANGE_MAX, "weir_exchange: more than 64 KiB from each rank");
	REFUSE_IF(timeout_ms < 0, "weir_exchange: timeout_ms is negative");
	return weirExchange(group, (void *)data, bytes, all, timeout_ms, room());
}

const char *weir_last_error(void) { return text != NULL ? text : ""; }

const char *weir_version(void) { return WEIR_VERSION; }
