/* Wrong arguments of every kind: each is an error with a reason, and none ends the process or the group. For 2 ranks. */
#include <limits.h>

#include "check.h"

static weir_session session;
static weir_group world;

/* handles that stand for nothing: never given, closed, a session's where a group's is wanted. */
static void wild_handles(weir_group closed, weir_session left)
{
	static float buffer[4];
	weir_group wild[] = {0, 1, 0xdeadbeef, UINT64_MAX, (uint64_t)(uintptr_t)buffer, closed, world + (1 << 16)};
	int32_t n, ranks[2] = {0, 1};
	char name[8];
	weir_group out;
	weir_class c = {WEIR_HOST, WEIR_FLOAT32, WEIR_SUM, 0};
	for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) {
		if (wild[i] == world) /* handles count from 1 */
			continue;
		WANT(WEIR_CLOSED, "not open", weir_rank(wild[i], &n));
		WANT(WEIR_CLOSED, "not open", weir_size(wild[i], &n));
		WANT(WEIR_CLOSED, "not open", weir_ranks(wild[i], ranks, 2));
		WANT(WEIR_CLOSED, "not open", weir_split(wild[i], 0, 0, 0, &out));
		WANT(WEIR_CLOSED, "not open", weir_close(wild[i]));
		WANT(WEIR_CLOSED, "not open", weir_warm(wild[i], &c, 1, 0));
		WANT(WEIR_CLOSED, "not open", weir_backend(wild[i], &c, 1, name, sizeof name));
		WANT(WEIR_CLOSED, "not open", weir_all_reduce(wild[i], buffer, buffer, 4, WEIR_FLOAT32, WEIR_SUM));
		WANT(WEIR_CLOSED, "not open", weir_all_reduce_device(wild[i], buffer, buffer, 4, WEIR_FLOAT32, WEIR_SUM, NULL));
		WANT(WEIR_CLOSED, "not open", weir_group_error(wild[i]));
		WANT(WEIR_CLOSED, "not open", weir_exchange(wild[i], NULL, 0, NULL, 0));
	}
	weir_session no[] = {0, 0xdeadbeef, UINT64_MAX, left, session + (1 << 16)};
	for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
		WANT(WEIR_CLOSED, "not open", weir_leave(no[i]));
		WANT(WEIR_CLOSED, "not open", weir_world(no[i], &out));
		WANT(WEIR_CLOSED, "not open", weir_new_group(no[i], ranks, 2, 0, &out));
	}
}

static void null_pointers(void)
{
	weir_class c = {WEIR_HOST, WEIR_FLOAT32, WEIR_SUM, 0};
	int32_t ranks[] = {0, 1};
	weir_group out;
	char name[8];
	WANT(WEIR_INVALID, "NULL", weir_join(NULL, NULL));
	WANT(WEIR_INVALID, "NULL", weir_world(session, NULL));
	WANT(WEIR_INVALID, "NULL", weir_new_group(session, NULL, 2, 0, &out));
	WANT(WEIR_INVALID, "NULL", weir_new_group(session, ranks, 2, 0, NULL));
	WANT(WEIR_INVALID, "NULL", weir_split(world, 0, 0, 0, NULL));
	WANT(WEIR_INVALID, "NULL", weir_rank(world, NULL));
	WANT(WEIR_INVALID, "NULL", weir_size(world, NULL));
	WANT(WEIR_INVALID, "NULL", weir_ranks(world, NULL, 2));
	WANT(WEIR_INVALID, "NULL", weir_warm(world, NULL, 1, 0));
	WANT(WEIR_INVALID, "NULL", weir_backend(world, NULL, 1, name, sizeof name));
	WANT(WEIR_INVALID, "no room", weir_backend(world, &c, 1, NULL, 8));
	WANT(WEIR_INVALID, "no room", weir_backend(world, &c, 1, name, 0));
	WANT(WEIR_INVALID, "NULL", weir_exchange(world, NULL, 8, name, 0));
	WANT(WEIR_INVALID, "NULL", weir_exchange(world, name, 8, NULL, 0));
}

static void out_of_range(void)
{
	int32_t ranks[4] = {0, 1, 1, 1};
	weir_group out;
	char name[8];
	static const int32_t wrong[] = {-1, 8, 255, 256, INT32_MAX, INT32_MIN};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		int32_t w = wrong[i];
		weir_class classes[] = {{w, 0, 0, 0}, {0, w, 0, 0}, {0, 0, w, 0}, {1, 0, 0, w}};
		for (int j = 0; j < 4; j++) {
			WANT(WEIR_INVALID, "request class", weir_warm(world, &classes[j], 1, 0));
			WANT(WEIR_INVALID, "request class", weir_backend(world, &classes[j], 1, name, sizeof name));
		}
	}
	weir_class c = {WEIR_HOST, WEIR_FLOAT32, WEIR_SUM, 0};
	weir_class captured = {WEIR_HOST, WEIR_FLOAT32, WEIR_SUM, 1};
	WANT(WEIR_INVALID, "captured", weir_warm(world, &captured, 1, 0));
	WANT(WEIR_INVALID, "count", weir_warm(world, &c, 0, 0));
	WANT(WEIR_INVALID, "count", weir_warm(world, &c, -1, 0));
	WANT(WEIR_INVALID, "classes", weir_warm(world, &c, INT32_MAX, 0));
	WANT(WEIR_INVALID, "timeout", weir_warm(world, &c, 1, -1));
	OK(weir_backend(world, &c, -1, name, sizeof name));
	OK(weir_backend(world, &c, INT64_MIN, name, sizeof name));
	OK(weir_backend(world, &c, INT64_MAX, name, SIZE_MAX));
	WANT(WEIR_INVALID, "count", weir_new_group(session, ranks, 0, 0, &out));
	WANT(WEIR_INVALID, "count", weir_new_group(session, ranks, -4, 0, &out));
	WANT(WEIR_INVALID, "ranks of", weir_new_group(session, ranks, INT32_MAX, 0, &out));
	WANT(WEIR_INVALID, "timeout", weir_new_group(session, ranks, 2, INT64_MIN, &out));
	WANT(WEIR_ERROR, "new group", weir_new_group(session, (int32_t[]){0, 0}, 2, 1000, &out));
	WANT(WEIR_ERROR, "new group", weir_new_group(session, (int32_t[]){0, 2}, 2, 1000, &out));
	WANT(WEIR_ERROR, "new group", weir_new_group(session, (int32_t[]){-1, 0}, 2, 1000, &out));
	WANT(WEIR_INVALID, "places", weir_ranks(world, ranks, 3));
	WANT(WEIR_INVALID, "places", weir_ranks(world, ranks, -1));
	WANT(WEIR_INVALID, "timeout", weir_split(world, 0, 0, -1, &out));
	WANT(WEIR_INVALID, "64 KiB", weir_exchange(world, name, SIZE_MAX, name, 0));
	WANT(WEIR_INVALID, "timeout", weir_exchange(world, name, 1, name, -5));
}

/* calls that this rank refuses count as calls, so both ranks make the same. */
static void calls(void)
{
	_Alignas(8) static float a[16], b[16];
	float *odd = (float *)((char *)a + 1);
	static const int64_t counts[] = {0, -1, INT64_MIN, INT64_MAX, INT64_MAX / 4 + 2, (INT64_C(1) << 62) + 1};
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
		WANT(WEIR_INVALID, "elements", weir_all_reduce(world, a, b, counts[i], WEIR_FLOAT32, WEIR_SUM));
	WANT(WEIR_INVALID, "address 0", weir_all_reduce(world, NULL, b, 16, WEIR_FLOAT32, WEIR_SUM));
	WANT(WEIR_INVALID, "address 0", weir_all_reduce(world, a, NULL, 16, WEIR_FLOAT32, WEIR_SUM));
	for (uintptr_t p = 4; p < 4096; p += 444)
		WANT(WEIR_INVALID, "at address", weir_all_reduce(world, (void *)p, b, 16, WEIR_FLOAT32, WEIR_SUM));
	WANT(WEIR_INVALID, "multiple of 4", weir_all_reduce(world, odd, b, 1, WEIR_FLOAT32, WEIR_SUM));
	WANT(WEIR_INVALID, "overlap", weir_all_reduce(world, a, a + 1, 8, WEIR_FLOAT32, WEIR_SUM));
	WANT(WEIR_INVALID, "data type", weir_all_reduce(world, a, b, 16, (weir_data_type)8, WEIR_SUM));
	WANT(WEIR_INVALID, "data type", weir_all_reduce(world, a, b, 16, (weir_data_type)-1, WEIR_SUM));
	WANT(WEIR_INVALID, "data type", weir_all_reduce(world, a, b, 16, (weir_data_type)256, WEIR_SUM));
	WANT(WEIR_INVALID, "reduce op", weir_all_reduce(world, a, b, 16, WEIR_FLOAT32, (weir_op)5));
	WANT(WEIR_INVALID, "reduce op", weir_all_reduce(world, a, b, 16, WEIR_FLOAT32, (weir_op)INT_MIN));
	WANT(WEIR_INVALID, "without a device", weir_all_reduce_device(world, a, b, 16, WEIR_FLOAT32, WEIR_SUM, NULL));
	WANT(WEIR_INVALID, "without a device", weir_all_reduce_device(world, NULL, NULL, -1, (weir_data_type)-1, (weir_op)-1, (void *)1));
	sum_is_right(world, 100); /* the group is as good as before */
}

static void joins(void)
{
	weir_session other;
	weir_options o = WEIR_OPTIONS_INIT;
	o.size = 0;
	WANT(WEIR_INVALID, "WEIR_OPTIONS_INIT", weir_join(&o, &other));
	o.size = sizeof o + 8;
	WANT(WEIR_INVALID, "WEIR_OPTIONS_INIT", weir_join(&o, &other));
	o = (weir_options)WEIR_OPTIONS_INIT;
	o.timeout_ms = -1;
	WANT(WEIR_INVALID, "timeout", weir_join(&o, &other));
	o.timeout_ms = 2000;
	o.world_size = -3;
	WANT(WEIR_INVALID, "world_size", weir_join(&o, &other));
	o.world_size = 2;
	o.rank = 2;
	WANT(WEIR_ERROR, "rank 2 of 2", weir_join(&o, &other));
	o.rank = WEIR_ANY_RANK(7); /* both ranks do, and get what is free */
	o.device = "auto";
	WANT(WEIR_ERROR, "name the device", weir_join(&o, &other));
	o.device = NULL;
	o.timeout_ms = 30000;
	weir_group world;
	int32_t rank = -1, all[2];
	OK(weir_join(&o, &other));
	OK(weir_world(other, &world));
	OK(weir_rank(world, &rank));
	OK(weir_exchange(world, &rank, sizeof rank, all, 0));
	if (all[rank] != rank || all[1 - rank] != 1 - rank)
		FAIL("rank %d among %d and %d", rank, all[0], all[1]);
	OK(weir_leave(other));
	other = 0;
	o.timeout_ms = 2000;
	o.rank = 0;
	o.socket = "/nowhere/agent.sock";
	WANT(WEIR_ERROR, "no agent answers", weir_join(&o, &other));
	char *longer = malloc(100001);
	memset(longer, 'x', 100000);
	longer[100000] = 0;
	o.socket = longer;
	WANT(WEIR_ERROR, "xxxx", weir_join(&o, &other)); /* more than there is room for in the last error */
	free(longer);
	if (strlen(weir_last_error()) != 4095)
		FAIL("an error of %zu bytes", strlen(weir_last_error()));
	if (other != 0)
		FAIL("a join that failed left a handle");
	setenv("WEIR_RANK", "many", 1);
	WANT(WEIR_ERROR, "WEIR_RANK=\"many\"", weir_join(NULL, &other));
	unsetenv("WEIR_AGENT_SOCKET");
	WANT(WEIR_ERROR, "weir run", weir_join(NULL, &other));
}

int main(void)
{
	weir_group closed;
	if (weir_last_error()[0] != 0)
		FAIL("an error before the first");
	OK(weir_join(NULL, &session));
	OK(weir_world(session, &world));
	OK(weir_new_group(session, (int32_t[]){0, 1}, 2, 0, &closed));
	OK(weir_close(closed));
	null_pointers();
	out_of_range();
	calls();
	wild_handles(closed, session + 1);
	OK(weir_leave(session));
	WANT(WEIR_CLOSED, "not open", weir_leave(session));
	WANT(WEIR_CLOSED, "not open", weir_all_reduce(world, &closed, &closed, 1, WEIR_INT64, WEIR_SUM));
	joins();
	puts("right");
	return 0;
}
