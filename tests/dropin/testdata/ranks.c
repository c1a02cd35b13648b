// A program that uses NCCL and knows nothing of Weir: ranks.c SCENARIO. It is a rank of as many as NRANKS says, is told its number
// in NRANK, and meets the others over the file ID. What a scenario finds it prints on standard output, one word a line. With
// SHARE the ranks use one GPU, which NCCL allows to ranks of different hosts.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct { char bytes[128]; } id;
typedef struct { size_t size; unsigned magic, version; int blocking, more[40]; } config;
typedef struct comm comm;
int ncclGetUniqueId(id *);
int ncclCommInitRank(comm **, int, id, int);
int ncclCommInitRankConfig(comm **, int, id, int, config *);
int ncclCommSplit(comm *, int, int, comm **, void *);
int ncclCommUserRank(comm *, int *);
int ncclCommDestroy(comm *);
int ncclCommAbort(comm *);
int ncclCommFinalize(comm *);
int ncclCommGetAsyncError(comm *, int *);
int ncclAllReduce(const void *, void *, size_t, int, int, comm *, void *);
int ncclGroupStart(void), ncclGroupEnd(void);
const char *ncclGetLastError(comm *), *ncclGetErrorString(int);
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuMemAlloc_v2(void **, size_t), cuStreamCreate(void **, unsigned);
int cuStreamSynchronize(void *), cuMemcpyHtoD_v2(void *, const void *, size_t), cuMemcpyDtoH_v2(void *, void *, size_t);
int cuStreamBeginCapture_v2(void *, int), cuStreamEndCapture(void *, void **), cuGraphInstantiateWithFlags(void **, void *, uint64_t), cuGraphLaunch(void *, void *);

enum { N = 1000, F16 = 6, F32 = 7, F64 = 8, BF16 = 9, SUM = 0, MAX = 2 };
static int rank, ranks;
static void *stream, *memory;

#define MUST(call) do { int r_ = (call); if (r_) { printf("rank %d: %s is %d (%s)\n", rank, #call, r_, ncclGetLastError(0)); exit(1); } } while (0)

static void device(void) {
	void *context;
	MUST(cuInit(0));
	if (getenv("SHARE")) {
		char host[32];
		snprintf(host, sizeof host, "host %d", rank);
		setenv("NCCL_HOSTID", host, 1);
	}
	MUST(cuDevicePrimaryCtxRetain(&context, getenv("SHARE") ? 0 : rank));
	MUST(cuCtxSetCurrent(context));
	MUST(cuMemAlloc_v2(&memory, N * 8));
	MUST(cuStreamCreate(&stream, 1));
}

// meet gives all ranks rank 0's id, which it leaves in a file.
static id meet(int number) {
	id i;
	char path[256], made[300];
	snprintf(path, sizeof path, "%s.%d", getenv("ID"), number);
	snprintf(made, sizeof made, "%s.new", path);
	if (rank == 0) {
		MUST(ncclGetUniqueId(&i));
		FILE *f = fopen(made, "w");
		fwrite(&i, sizeof i, 1, f);
		fclose(f);
		rename(made, path);
		return i;
	}
	for (FILE *f; ; usleep(1000))
		if ((f = fopen(path, "r"))) {
			MUST(fread(&i, 1, sizeof i, f) != sizeof i);
			fclose(f);
			return i;
		}
}

// A rank that waits until another one has done what it is there for.
static inline void over(void) {
	char path[300];
	snprintf(path, sizeof path, "%s.over", getenv("ID"));
	fclose(fopen(path, "w"));
}
static inline void wait_until_over(void) {
	char path[300];
	snprintf(path, sizeof path, "%s.over", getenv("ID"));
	for (int i = 0; access(path, F_OK) && i < 60000; i++) usleep(1000);
}

static comm *make(int number) {
	comm *c;
	MUST(ncclCommInitRank(&c, ranks, meet(number), rank));
	return c;
}

// sum checks an in-place all-reduce of float32, or of float64, whose ranks contribute rank + 1 + element % 5.
static void check(int type, int world) {
	static double d[N];
	static float f[N];
	MUST(cuStreamSynchronize(stream));
	MUST(cuMemcpyDtoH_v2(type == F64 ? (void *)d : f, memory, N * (type == F64 ? 8 : 4)));
	for (int i = 0; i < N; i++) {
		double want = world * (world + 1) / 2 + world * (i % 5), got = type == F64 ? d[i] : f[i];
		if (got != want) { printf("rank %d: element %d is %g, want %g\n", rank, i, got, want); exit(1); }
	}
}
static void fill(int type, int as) {
	static double d[N];
	static float f[N];
	for (int i = 0; i < N; i++) d[i] = f[i] = as + 1 + i % 5;
	MUST(cuMemcpyHtoD_v2(memory, type == F64 ? (void *)d : f, N * (type == F64 ? 8 : 4)));
	MUST(cuStreamSynchronize(NULL)); // the copy may be on its way still, and the stream does not wait for the default one
}
static void sum(comm *c, int type, int as, int world) {
	fill(type, as);
	MUST(ncclAllReduce(memory, memory, N, type, SUM, c, stream));
	check(type, world);
}

static void captured(comm *c) {
	void *graph, *run;
	MUST(cuStreamBeginCapture_v2(stream, 0));
	MUST(ncclAllReduce(memory, memory, N, F32, SUM, c, stream));
	MUST(cuStreamEndCapture(stream, &graph));
	MUST(cuGraphInstantiateWithFlags(&run, graph, 0));
	for (int i = 0; i < 2; i++) {
		fill(F32, rank);
		MUST(cuGraphLaunch(run, stream));
		check(F32, ranks);
	}
}

// status has rank 0 print what weir knows, while the others wait.
static void status(comm *c) {
	sum(c, F64, rank, ranks);
	if (rank == 0) {
		fflush(stdout);
		MUST(system("unset LD_PRELOAD; weir status --format json"));
	}
	sum(c, F64, rank, ranks);
}

static int threads(void) {
	char line[128];
	int n = 0;
	FILE *f = fopen("/proc/self/status", "r");
	while (fgets(line, sizeof line, f)) sscanf(line, "Threads: %d", &n);
	fclose(f);
	return n;
}

static void usual(void) {
	comm *c = make(0);
	for (int i = 0; i < 3; i++) sum(c, F32, rank, ranks);
	sum(c, F64, rank, ranks); // a class that is not decided
	MUST(ncclGroupStart());
	fill(F32, rank);
	MUST(ncclAllReduce(memory, memory, N, F32, SUM, c, stream));
	MUST(ncclGroupEnd());
	check(F32, ranks);
	MUST(ncclAllReduce(memory, memory, 0, F32, SUM, c, stream)); // NCCL takes it
	captured(c);
	status(c);
	MUST(ncclCommFinalize(c));
	MUST(ncclCommDestroy(c));
	c = make(1); // a second one in the life of a process
	sum(c, F32, rank, ranks);
	MUST(ncclCommDestroy(c));
}

static void split(void) {
	comm *c = make(0), *half, *none;
	MUST(ncclCommSplit(c, rank % 2, -rank, &half, 0));
	int mine, world = (ranks + 1 - rank % 2) / 2;
	MUST(ncclCommUserRank(half, &mine));
	for (int i = 0; i < 2; i++) sum(half, F32, mine, world);
	MUST(ncclCommSplit(c, rank ? 0 : -1, 0, &none, 0));
	if (!rank != !none) { printf("rank %d has the wrong part\n", rank); exit(1); }
	status(c);
	MUST(ncclCommDestroy(half));
	sum(c, F32, rank, ranks);
}

static void plain(void) {
	comm *c = make(0);
	for (int i = 0; i < 2; i++) sum(c, F32, rank, ranks);
	MUST(ncclCommDestroy(c));
	c = make(1);
	sum(c, F32, rank, ranks);
	printf("right\n");
}

// silent makes a communicator and no call.
static void silent(void) {
	make(0);
	sleep(3);
}

// lost loses rank 1: rank 0 is told by NCCL's own functions.
static void lost(void) {
	comm *c = make(0);
	sum(c, F32, rank, ranks);
	if (rank == 1) raise(9);
	int error = 0;
	for (int i = 0; i < 1000 && !error; i++, usleep(10000)) MUST(ncclCommGetAsyncError(c, &error));
	printf("asynchronous error %d %s\nlast error: %s\n", error, ncclGetErrorString(error), ncclGetLastError(c));
	error = ncclAllReduce(memory, memory, N, F32, SUM, c, stream);
	printf("call %d last error: %s\n", error, ncclGetLastError(c));
	MUST(ncclCommAbort(c));
}

// aborted has rank 0 wait on the device for a call that rank 1 never makes, and abort.
static void aborted(void) {
	comm *c = make(0);
	int error = 0;
	sum(c, F32, rank, ranks);
	if (rank == 0) {
		MUST(ncclAllReduce(memory, memory, N, F32, SUM, c, stream));
		usleep(100000);
		MUST(ncclCommAbort(c));
		MUST(cuStreamSynchronize(stream));
		printf("rank 0 came back\n");
		return;
	}
	for (int i = 0; i < 1000 && !error; i++, usleep(10000)) MUST(ncclCommGetAsyncError(c, &error));
	printf("rank 1: error %d: %s\n", error, ncclGetLastError(c));
	MUST(ncclCommAbort(c));
}

// forks has a parent that has used nothing yet fork the ranks, and each rank fork before and after its communicator.
static void forks(void) {
	int started = threads();
	for (rank = 0; rank < ranks; rank++)
		if (!fork()) {
			pid_t before = fork();
			if (!before) { usleep(300000); _exit(0); }
			device();
			comm *c = make(0);
			sum(c, F32, rank, ranks);
			pid_t after = fork();
			if (!after) _exit(system("exit 7") == 7 << 8 ? 5 : 6); // a child of a process with a Go runtime, and its shell
			int how;
			MUST(waitpid(before, &how, 0) != before || how);
			MUST(waitpid(after, &how, 0) != after || how != 5 << 8);
			status(c);
			MUST(ncclCommDestroy(c));
			exit(0);
		}
	int how, bad = 0;
	for (int i = 0; i < ranks; i++) bad |= wait(&how) < 0 || how;
	printf("parent threads %d %d bad %d\n", started, threads(), bad);
	exit(bad);
}

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
static int compare(const void *a, const void *b) { double d = *(double *)a - *(double *)b; return (d > 0) - (d < 0); }

// cost prints, in nanoseconds of the host, what a call of one element takes by each way, and what it takes more than the last of
// them in the same round; medians of rounds in which the ways take turns. The last is the library REAL without anything between.
static void cost(void) {
	enum { WARM = 5, ROUNDS = 101 };
	int shared = getenv("SHARE") != 0, rounds = shared ? 21 : ROUNDS, calls = shared ? 4 : 20; // on a GPU that they share ranks wait for their turns
	comm *c = make(0);
	if (rank == 0) fprintf(stderr, "%d rounds of %d calls\n", rounds + WARM, calls);
	void *real = dlopen(getenv("REAL"), RTLD_NOW | RTLD_NOLOAD);
	if (!real) { printf("%s\n", dlerror()); exit(1); }
	int (*direct)(const void *, void *, size_t, int, int, comm *, void *);
	*(void **)&direct = dlsym(real, "ncclAllReduce");
	static struct { const char *name; int op; int (*call)(const void *, void *, size_t, int, int, comm *, void *); double took[ROUNDS], more[ROUNDS]; } ways[] = {
		{"sum", SUM, ncclAllReduce, {0}, {0}}, {"max", MAX, ncclAllReduce, {0}, {0}}, {"direct sum", SUM, 0, {0}, {0}}, {"direct max", MAX, 0, {0}, {0}},
	};
	enum { WAYS = sizeof ways / sizeof *ways };
	ways[2].call = ways[3].call = direct;
	for (int i = -WARM; i < rounds; i++)
		for (int w = 0; w < WAYS; w++) {
			double start = now();
			for (int k = 0; k < calls; k++) MUST(ways[w].call(memory, memory, 1, F32, ways[w].op, c, stream));
			if (i >= 0) ways[w].took[i] = (now() - start) / calls;
			MUST(cuStreamSynchronize(stream));
		}
	for (int w = 0; w < WAYS; w++) {
		for (int i = 0; i < rounds; i++) ways[w].more[i] = ways[w].took[i] - ways[WAYS - 1].took[i];
		if (w == WAYS - 1) memset(ways[w].more, 0, sizeof ways[w].more);
	}
	for (int w = 0; w < WAYS; w++) {
		qsort(ways[w].took, rounds, sizeof(double), compare);
		qsort(ways[w].more, rounds, sizeof(double), compare);
		if (rank == 0) printf("%s: %.0f %+.0f\n", ways[w].name, ways[w].took[rounds / 2], ways[w].more[rounds / 2]);
	}
	if (!shared) MUST(ncclCommDestroy(c)); // over sockets of one GPU's ranks NCCL has been seen to wait in it for ever
}

// groups prints what a group call of 1 to most sums takes until its stream has done them, in microseconds, by Weir and by the library REAL
// alone: medians of rounds in which the two take turns. WEIR_NCCL_GROUP_SUMS has to let them all be Weir's.
static void groups(int most) {
	enum { WARM = 3, ROUNDS = 51 };
	static const size_t bytes[] = {1024, 32 << 10, 1 << 20};
	comm *c = make(0);
	void *real = dlopen(getenv("REAL"), RTLD_NOW | RTLD_NOLOAD);
	if (!real) { printf("%s\n", dlerror()); exit(1); }
	struct { int (*start)(void), (*end)(void), (*call)(const void *, void *, size_t, int, int, comm *, void *); } ways[2] = {{ncclGroupStart, ncclGroupEnd, ncclAllReduce}, {0}};
	*(void **)&ways[1].start = dlsym(real, "ncclGroupStart");
	*(void **)&ways[1].end = dlsym(real, "ncclGroupEnd");
	*(void **)&ways[1].call = dlsym(real, "ncclAllReduce");
	int rounds = getenv("SHARE") ? 11 : ROUNDS;
	void *data;
	MUST(cuMemAlloc_v2(&data, most * bytes[2]));
	for (int b = 0; b < 3; b++)
		for (int count = 1; count <= most; count *= 2) {
			double took[2][ROUNDS];
			for (int i = -WARM; i < rounds; i++)
				for (int w = 0; w < 2; w++) {
					double begun = now();
					MUST(ways[w].start());
					for (int k = 0; k < count; k++) MUST(ways[w].call((char *)data + k * bytes[b], (char *)data + k * bytes[b], bytes[b] / 4, F32, SUM, c, stream));
					MUST(ways[w].end());
					MUST(cuStreamSynchronize(stream));
					if (i >= 0) took[w][i] = now() - begun;
				}
			for (int w = 0; w < 2; w++) qsort(took[w], rounds, sizeof(double), compare);
			if (rank == 0) printf("%zu bytes, %d sums: Weir %.1f, NCCL %.1f\n", bytes[b], count, took[0][rounds / 2] / 1e3, took[1][rounds / 2] / 1e3);
		}
	if (!getenv("SHARE")) MUST(ncclCommDestroy(c));
}

// loop prints the nanoseconds of a call of which the library does nothing: the median of 101 loops.
static void loop(void) {
	comm *c = make(0);
	enum { LOOPS = 101, CALLS = 100000 };
	static double took[LOOPS];
	for (int i = 0; i < LOOPS; i++) {
		double start = now();
		for (int k = 0; k < CALLS; k++) ncclAllReduce(memory, memory, 1, F32, SUM, c, stream);
		took[i] = (now() - start) / CALLS;
	}
	qsort(took, LOOPS, sizeof *took, compare);
	printf("%.1f ns\n", took[LOOPS / 2]);
	_exit(0);
}

int main(int argc, char **argv) {
	const char *what = argc > 1 ? argv[1] : "";
	setvbuf(stdout, 0, _IOLBF, 0);
	rank = atoi(getenv("NRANK") ? getenv("NRANK") : getenv("WEIR_RANK") ? getenv("WEIR_RANK") : "0");
	ranks = atoi(getenv("NRANKS") ? getenv("NRANKS") : "2");
	if (!strcmp(what, "forks")) forks();
	device();
	if (!strcmp(what, "usual")) usual();
	else if (!strcmp(what, "plain")) plain();
	else if (!strcmp(what, "silent")) silent();
	else if (!strcmp(what, "split")) split();
	else if (!strcmp(what, "lost")) lost();
	else if (!strcmp(what, "aborted")) aborted();
	else if (!strcmp(what, "cost")) cost();
	else if (!strcmp(what, "groups")) groups(argc > 2 ? atoi(argv[2]) : 64);
	else if (!strcmp(what, "loop")) loop();
	else return printf("no scenario %s\n", what), 2;
	return 0;
}
