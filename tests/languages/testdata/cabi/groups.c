/* Groups, split, warm, exchange, and all types and ops, from two threads at once. For 4 ranks. */
#include <pthread.h>

#include "check.h"

static void types_and_ops(weir_group world, int rank)
{
	static const size_t size[] = {4, 8, 2, 2, 1, 1, 4, 8};
	_Alignas(8) unsigned char in[64], out[64], same[64];
	for (int type = WEIR_FLOAT32; type <= WEIR_INT64; type++)
		for (int op = WEIR_SUM; op <= WEIR_AVG; op++) {
			memset(in, 0, sizeof in); /* 0 in every type */
			memset(out, 0xff, sizeof out);
			memcpy(same, in, sizeof same);
			OK(weir_all_reduce(world, out, in, (int64_t)(64 / size[type]), (weir_data_type)type, (weir_op)op));
			OK(weir_all_reduce(world, same, same, (int64_t)(64 / size[type]), (weir_data_type)type, (weir_op)op));
			if (memcmp(out, in, 64) != 0 || memcmp(same, in, 64) != 0)
				FAIL("type %d, op %d: zeros make something else", type, op);
		}
	int64_t i = 1 + rank, want[] = {10, 24, 1, 4, 2}, got; /* of 1, 2, 3, 4 */
	double d = 1 + rank, wanted[] = {10, 24, 1, 4, 2.5}, result;
	for (int op = WEIR_SUM; op <= WEIR_AVG; op++) {
		OK(weir_all_reduce(world, &got, &i, 1, WEIR_INT64, (weir_op)op));
		OK(weir_all_reduce(world, &result, &d, 1, WEIR_FLOAT64, (weir_op)op));
		if (got != want[op] || result != wanted[op])
			FAIL("op %d: %lld and %g, want %lld and %g", op, (long long)got, result, (long long)want[op], wanted[op]);
	}
}

static void *many(void *group)
{
	for (int i = 0; i < 200; i++)
		sum_is_right(*(weir_group *)group, 1 + i * 13);
	OK(weir_close(*(weir_group *)group));
	return NULL;
}

int main(void)
{
	weir_options o = WEIR_OPTIONS_INIT;
	weir_session s;
	weir_group world, again, part, none, of[2];
	int32_t rank, size, members[2];
	OK(weir_join(&o, &s));
	OK(weir_world(s, &world));
	OK(weir_world(s, &again));
	if (world != again)
		FAIL("two handles of one group");
	OK(weir_rank(world, &rank));
	sum_is_right(world, 1000);
	types_and_ops(world, rank);

	weir_class classes[] = {{WEIR_HOST, WEIR_INT8, WEIR_MAX, 0}, {WEIR_HOST, WEIR_FLOAT16, WEIR_AVG, 0}};
	OK(weir_warm(world, classes, 2, 0));
	char name[5] = "none";
	OK(weir_backend(world, &classes[0], 100, name, sizeof name));
	if (strcmp(name, "shm-") != 0)
		FAIL("backend %s, want the first four letters of shm-flat", name);
	OK(weir_backend(world, &(weir_class){WEIR_CUDA, WEIR_FLOAT32, WEIR_SUM, 1}, 100, name, sizeof name));
	if (name[0] != 0)
		FAIL("backend %s of a class that nobody has decided", name);

	OK(weir_split(world, rank % 2, -rank, 0, &part)); /* {2, 0} and {3, 1} */
	OK(weir_rank(part, &size));
	OK(weir_ranks(part, members, 2));
	if (size != (rank < 2) || members[0] != 2 + rank % 2 || members[1] != rank % 2)
		FAIL("rank %d is %d of {%d, %d}", rank, size, members[0], members[1]);
	sum_is_right(part, 33);
	OK(weir_split(world, rank == 0 ? -1 : 7, 0, 0, &none));
	if ((none == 0) != (rank == 0))
		FAIL("rank %d: split gave %llu", rank, (unsigned long long)none);

	int32_t mine = 100 + rank, all[4];
	OK(weir_exchange(world, &mine, sizeof mine, all, 0));
	for (int r = 0; r < 4; r++)
		if (all[r] != 100 + r)
			FAIL("exchange: rank %d gave %d", r, all[r]);
	OK(weir_exchange(world, NULL, 0, NULL, 0));

	for (int i = 0; i < 2; i++)
		OK(weir_new_group(s, (int32_t[]){3, 1, 0, 2}, 4, 0, &of[i]));
	pthread_t thread[2];
	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, many, &of[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	OK(weir_leave(s));
	puts("right");
	return 0;
}
