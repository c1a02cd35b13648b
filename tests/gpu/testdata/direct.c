// The loops of C against which tests/gpu measures, run in the same process and on the same communicator and stream, so that
// both meet the same clock rates. Nanoseconds for so many calls; negative: a call failed.
#include <stddef.h>
#include <time.h>

static long now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}
typedef int all_reduce(const void *, void *, size_t, int, int, void *, void *);
long direct_enqueue(all_reduce *f, const void *src, void *dst, size_t n, int type, int op, void *comm, void *stream, long calls) {
	long start = now();
	for (long i = 0; i < calls; i++)
		if (f(src, dst, n, type, op, comm, stream)) return -1;
	return now() - start;
}
typedef int launch_kernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
long direct_launch(launch_kernel *f, void *kernel, void *stream, long calls) {
	long start = now();
	for (long i = 0; i < calls; i++)
		if (f(kernel, 1, 1, 1, 32, 1, 1, 0, stream, 0, 0)) return -1;
	return now() - start;
}
