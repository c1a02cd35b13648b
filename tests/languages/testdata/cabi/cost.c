/* The cost of a call: the median of batches, in nanoseconds. For 1 rank, so that nobody is waited for. */
#include <time.h>

#include "check.h"

enum { BATCHES = 201, CALLS = 2000 };

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(void)
{
	weir_session s;
	weir_group world;
	float in[2] = {1, 2}, out[2];
	static double spent[BATCHES];
	OK(weir_join(NULL, &s));
	OK(weir_world(s, &world));
	for (int b = 0; b < BATCHES; b++) {
		struct timespec start, end;
		clock_gettime(CLOCK_MONOTONIC, &start);
		for (int i = 0; i < CALLS; i++)
			if (weir_all_reduce(world, out, in, 2, WEIR_FLOAT32, WEIR_SUM) != WEIR_OK)
				FAIL("%s", weir_last_error());
		clock_gettime(CLOCK_MONOTONIC, &end);
		spent[b] = ((double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec)) / CALLS;
	}
	qsort(spent, BATCHES, sizeof *spent, compare);
	printf("%.1f\n", spent[BATCHES / 2]);
	OK(weir_leave(s));
	return 0;
}
