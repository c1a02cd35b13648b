// The calls of NVIDIA's all_reduce_perf, built with MPI and NCCL 2.28, as it makes them: perf.c [-m N] [-G] [-R N] [-z] [-y] [-n N] [-w N] [-o N].
// What it sums it checks in every element. -d all is what it always does, but for the types of 8 bits of floating point, and -o all unless it
// is told the number of an op.
#define main without_perf
#include "ranks.c"
#undef main
#include <math.h>

enum { TYPES = 10, OPS = 6, AVG = 4, PREMUL = 5, BYTES = 1 << 16, NOT_READY = 600 };
int ncclGetVersion(int *), ncclMemAlloc(void **, size_t), ncclMemFree(void *);
int ncclCommRegister(comm *, void *, size_t, void **), ncclCommDeregister(comm *, void *);
int ncclCommWindowRegister(comm *, void *, size_t, void **, int), ncclCommWindowDeregister(comm *, void *);
int ncclRedOpCreatePreMulSum(int *, void *, int, int, comm *), ncclRedOpDestroy(int, comm *);
int cuMemsetD8_v2(void *, unsigned char, size_t), cuStreamQuery(void *), cuGraphDestroy(void *), cuGraphExecDestroy(void *), cuCtxSynchronize(void);

static const size_t sizes[TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
static const char *const names[TYPES] = {"int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16"};
static comm *c;
static char *sends, *receives;
static int aggregated = 1, graphs, registers, blocks, iterations = 20, warm = 1, only = -1;

// Small whole numbers are the same in every type.
static double value(const void *p, int type, size_t i) {
	const uint16_t *h = p;
	switch (type) {
	case 0: return ((int8_t *)p)[i];
	case 1: return ((uint8_t *)p)[i];
	case 2: return ((int32_t *)p)[i];
	case 3: return ((uint32_t *)p)[i];
	case 4: return ((int64_t *)p)[i];
	case 5: return ((uint64_t *)p)[i];
	case 6: return h[i] ? ldexp(1024 + (h[i] & 1023), (h[i] >> 10) - 25) : 0;
	case 7: return ((float *)p)[i];
	case 8: return ((double *)p)[i];
	}
	uint32_t bits = (uint32_t)h[i] << 16;
	float f;
	memcpy(&f, &bits, 4);
	return f;
}
static void put(void *p, int type, size_t i, double v) {
	int e;
	uint32_t bits;
	float f = v;
	switch (type) {
	case 0: case 1: ((uint8_t *)p)[i] = v; return;
	case 2: case 3: ((uint32_t *)p)[i] = v; return;
	case 4: case 5: ((uint64_t *)p)[i] = v; return;
	case 6: ((uint16_t *)p)[i] = v ? (uint16_t)(((frexp(v, &e), e + 14) << 10) + ((int)ldexp(v, 11 - e) & 1023)) : 0; return;
	case 7: ((float *)p)[i] = v; return;
	case 8: ((double *)p)[i] = v; return;
	}
	memcpy(&bits, &f, 4);
	((uint16_t *)p)[i] = bits >> 16;
}
static double of_rank(int r, size_t i) { return 1 + (r + i) % 2; }
static double wanted(int op, size_t i) {
	double v = op == 1;
	for (int r = 0; r < ranks; r++) {
		double x = of_rank(r, i) * (op == PREMUL ? r % 2 + 1 : 1);
		v = op == 1 ? v * x : op == 2 ? fmax(v, x) : op == 3 ? (r ? fmin(v, x) : x) : v + x;
	}
	return v;
}

// synchronize asks the stream and, as long as it works, the communicator.
static void synchronize(void) {
	for (int r; (r = cuStreamQuery(stream));) {
		int error;
		if (r != NOT_READY) MUST(r);
		MUST(ncclCommGetAsyncError(c, &error));
		if (error) { printf("asynchronous error %d\n", error); exit(1); }
	}
}
static void start(size_t bytes, int type, int op, int in_place, int iteration) {
	size_t shift = bytes * (iteration % (BYTES / bytes));
	char *to = receives + shift, *from = in_place ? to : sends + shift;
	int own = op;
	if (op == PREMUL) {
		uint64_t scalar = 0;
		put(&scalar, type, 0, rank % 2 + 1);
		MUST(ncclRedOpCreatePreMulSum(&own, &scalar, type, 1, c));
	}
	MUST(ncclAllReduce(from, to, bytes / sizes[type], type, own, c, stream));
	if (op == PREMUL) MUST(ncclRedOpDestroy(own, c));
	if (blocks) synchronize();
}
static void capture(int on) {
	void *graph, *run;
	if (!graphs) return;
	if (on) {
		MUST(cuStreamBeginCapture_v2(stream, on));
		return;
	}
	MUST(cuStreamEndCapture(stream, &graph));
	MUST(cuGraphInstantiateWithFlags(&run, graph, 0));
	MUST(cuGraphLaunch(run, stream));
	synchronize();
	MUST(cuGraphExecDestroy(run));
	MUST(cuGraphDestroy(graph));
}
static void init(size_t bytes, int type, int in_place) {
	static char host[BYTES];
	MUST(cuMemsetD8_v2(receives, 0, bytes));
	for (size_t i = 0; i < bytes / sizes[type]; i++) put(host, type, i, of_rank(rank, i));
	MUST(cuMemcpyHtoD_v2(in_place ? receives : sends, host, bytes));
	MUST(cuCtxSynchronize());
}
static void bench(size_t bytes, int type, int op, int in_place) {
	static char host[BYTES];
	init(bytes, type, in_place);
	start(bytes, type, op, in_place, 0);
	if (!blocks) synchronize();
	capture(1); // of this thread
	for (int i = 0; i < iterations; i++) {
		if (aggregated > 1) MUST(ncclGroupStart());
		for (int a = 0; a < aggregated; a++) start(bytes, type, op, in_place, i * aggregated + a);
		if (aggregated > 1) MUST(ncclGroupEnd());
	}
	capture(0);
	synchronize();
	init(bytes, type, in_place);
	if (graphs) MUST(cuStreamBeginCapture_v2(stream, 0)); // of all
	start(bytes, type, op, in_place, 0);
	capture(0);
	synchronize();
	MUST(cuMemcpyDtoH_v2(host, receives, bytes));
	for (size_t i = 0; i < bytes / sizes[type]; i++) {
		double want = wanted(op, i), got = value(host, type, i);
		int whole = type < 6;
		if (op == AVG) want = whole ? floor(want / ranks) : want / ranks;
		if (got != want) { printf("rank %d: %s, op %d, %zu bytes, element %zu is %g, want %g\n", rank, names[type], op, bytes, i, got, want); exit(1); }
	}
}

static void prepare(void) {
	config how = {sizeof how, 0xcafebeef, 22809, (int)0x80000000, {0}};
	int version;
	void *expected, *handles[2] = {0};
	for (int i = 0; i < 40; i++) how.more[i] = (int)0x80000000;
	MUST(ncclGetVersion(&version));
	id number = meet(0);
	MUST(ncclGroupStart());
	MUST(ncclCommInitRankConfig(&c, ranks, number, rank, &how));
	MUST(ncclGroupEnd());
	MUST(ncclGroupStart());
	MUST(ncclMemAlloc((void **)&sends, BYTES));
	MUST(ncclMemAlloc((void **)&receives, BYTES));
	MUST(ncclMemAlloc(&expected, BYTES));
	for (int i = 0; i < 2 && registers == 1; i++) MUST(ncclCommRegister(c, i ? receives : sends, BYTES, &handles[i]));
	for (int i = 0; i < 2 && registers == 2; i++) MUST(ncclCommWindowRegister(c, i ? receives : sends, BYTES, &handles[i], 1));
	MUST(ncclGroupEnd());
	for (int type = 0; type < TYPES; type++)
		for (int op = 0; op < OPS; op++) {
			if (only >= 0 && op != only) continue;
			for (int i = 0; i < warm; i++) start(BYTES / 2, type, op, 0, i);
			synchronize();
			for (size_t bytes = 8; bytes <= BYTES; bytes *= 16)
				for (int in_place = 0; in_place < 2; in_place++) bench(bytes, type, op, in_place);
		}
	status(c);
	for (int i = 0; i < 2; i++) {
		if (registers == 1) MUST(ncclCommDeregister(c, handles[i]));
		if (registers == 2) MUST(ncclCommWindowDeregister(c, handles[i]));
	}
	MUST(ncclCommDestroy(c));
	MUST(ncclMemFree(sends));
	MUST(ncclMemFree(receives));
	MUST(ncclMemFree(expected));
	printf("right\n");
}

int main(int argc, char **argv) {
	setvbuf(stdout, 0, _IOLBF, 0);
	rank = atoi(getenv("NRANK") ? getenv("NRANK") : getenv("WEIR_RANK") ? getenv("WEIR_RANK") : "0");
	ranks = atoi(getenv("NRANKS") ? getenv("NRANKS") : "2");
	device();
	for (int option; (option = getopt(argc, argv, "m:GR:zyn:w:o:")) >= 0;)
		switch (option) {
		case 'm': aggregated = atoi(optarg); break;
		case 'G': graphs = 1; break;
		case 'R': registers = atoi(optarg); break;
		case 'z': blocks = 1; break;
		case 'y': stream = 0; break;
		case 'n': iterations = atoi(optarg); break;
		case 'w': warm = atoi(optarg); break;
		case 'o': only = atoi(optarg); break;
		default: return 2;
		}
	prepare();
	return 0;
}
