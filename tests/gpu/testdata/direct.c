// What tests/gpu measures, without Go and Weir: the host's time to enqueue an all-reduce on N devices by NCCL, and to launch
// a kernel. Build: gcc -O2 -I/usr/local/cuda/include direct.c -o direct -lnccl -lcuda; run: ./direct N
#include <cuda.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CU(x) do { int r_ = (x); if (r_) { fprintf(stderr, "%s: %d\n", #x, r_); exit(1); } } while (0)
typedef struct { int arrived, generation; ncclUniqueId id; } shared;

static void meet(volatile shared *s, int n) {
	int generation = s->generation;
	if (__sync_add_and_fetch(&s->arrived, 1) == n) { s->arrived = 0; __sync_add_and_fetch(&s->generation, 1); }
	while (s->generation == generation) usleep(10);
}
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
static int less(const void *a, const void *b) { double x = *(double *)a, y = *(double *)b; return (x > y) - (x < y); }
static double median(double *v, int n) { qsort(v, n, sizeof *v, less); return v[n / 2]; }
static const char empty[] = ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry empty() { ret; }\n";

static void rank(int r, int n, shared *s) {
	CUdevice device; CUcontext context; CUstream stream; CUdeviceptr in, out; ncclComm_t comm;
	CU(cuInit(0)); CU(cuDeviceGet(&device, r)); CU(cuDevicePrimaryCtxRetain(&context, device)); CU(cuCtxSetCurrent(context));
	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)); CU(cuMemAlloc(&in, 1 << 16)); CU(cuMemAlloc(&out, 1 << 16));
	if (r == 0) CU(ncclGetUniqueId(&s->id));
	meet(s, n);
	CU(ncclCommInitRank(&comm, n, s->id, r));
	int counts[] = {2, 3584, 1 << 14};
	for (int c = 0; c < 3; c++) {
		double times[31];
		for (int i = -2; i < 31; i++) {
			meet(s, n);
			double start = now();
			for (int k = 0; k < 100; k++) CU(ncclAllReduce((void *)in, (void *)out, counts[c], ncclFloat, ncclSum, comm, stream));
			if (i >= 0) times[i] = (now() - start) / 100;
			CU(cuStreamSynchronize(stream));
		}
		if (r == 0) printf("# enqueue %d B: %.0f ns NCCL from C\n", 4 * counts[c], median(times, 31));
	}
	CUmodule module; CUfunction f; double times[101];
	CU(cuModuleLoadData(&module, empty)); CU(cuModuleGetFunction(&f, module, "empty"));
	for (int i = -2; i < 101; i++) {
		double start = now();
		for (int k = 0; k < 100; k++) CU(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, stream, 0, 0));
		if (i >= 0) times[i] = (now() - start) / 100;
		CU(cuStreamSynchronize(stream));
	}
	if (r == 0) printf("# kernel launch from C: %.0f ns\n", median(times, 101));
	fflush(stdout);
	ncclCommDestroy(comm);
}
int main(int argc, char **argv) {
	int n = argc > 1 ? atoi(argv[1]) : 1;
	shared *s = mmap(0, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int r = 0; r < n; r++) if (!fork()) { rank(r, n, s); _exit(0); }
	for (int r = 0; r < n; r++) wait(0);
	return 0;
}
