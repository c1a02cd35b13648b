// Communicators that do not block: later.c SCENARIO, beside what ranks.c has.
#define main with_blocking
#include "ranks.c"
#undef main
#include <pthread.h>

enum { IN_PROGRESS = 7 };
int cuCtxGetCurrent(void **), cuThreadExchangeStreamCaptureMode(int *);
static config not_blocking = {sizeof(config), 0xcafebeef, 22809, 0, {0}};

static int state(comm *c) {
	int now;
	MUST(ncclCommGetAsyncError(c, &now));
	return now;
}

// wait_for is how a program waits until a communicator is ready.
static int wait_for(comm *c) {
	for (int now, i = 0; ; usleep(1000)) {
		if ((now = state(c)) != IN_PROGRESS) return now;
		if (i++ > 60000) { printf("rank %d: in progress for ever\n", rank); exit(1); }
	}
}

static comm *begin(int number) {
	comm *c;
	int r = ncclCommInitRankConfig(&c, ranks, meet(number), rank, &not_blocking);
	if (r != IN_PROGRESS || !c) { printf("rank %d: not in progress: %d\n", rank, r); exit(1); }
	return c;
}

static void made(void) {
	comm *c = begin(0);
	if (state(c) != IN_PROGRESS) printf("rank %d is ready at once\n", rank);
	printf("early %d", ncclAllReduce(memory, memory, N, F32, SUM, c, stream));
	printf(" %s", ncclGetLastError(c));
	printf(", early end %d\n", ncclCommDestroy(c));
	MUST(wait_for(c));
	for (int i = 0; i < 3; i++) sum(c, F32, rank, ranks);
	captured(c);
	status(c);
	MUST(ncclCommDestroy(c));
}

static void parts(void) {
	comm *c = begin(0), *half, *none;
	MUST(wait_for(c));
	int mine, world = (ranks + 1 - rank % 2) / 2, r = ncclCommSplit(c, rank % 2, -rank, &half, &not_blocking);
	if (r != IN_PROGRESS || half) { printf("rank %d: a part at once: %d\n", rank, r); exit(1); }
	MUST(wait_for(c));
	if (!half) { printf("rank %d: no part\n", rank); exit(1); }
	MUST(wait_for(half));
	MUST(ncclCommUserRank(half, &mine));
	for (int i = 0; i < 2; i++) sum(half, F32, mine, world);
	r = ncclCommSplit(c, rank ? 0 : -1, 0, &none, &not_blocking);
	if (r != IN_PROGRESS && r) MUST(r);
	MUST(wait_for(c));
	if (!rank != !none) { printf("rank %d has the wrong part\n", rank); exit(1); }
	if (none) MUST(wait_for(none));
	status(c);
	MUST(ncclCommDestroy(half));
	sum(c, F32, rank, ranks);
}

// refused tells what becomes of one whose peer does not agree.
static void refused(void) {
	comm *c = begin(0);
	if (rank) { wait_until_over(); return; }
	int now = wait_for(c);
	printf("state %d %s\n", now, ncclGetLastError(c));
	over();
	MUST(ncclCommAbort(c));
}

// left is refused without being asked to be patient, and looks whether its thread is as it was.
static void left(void) {
	comm *c;
	void *before = 0, *after = 0;
	int mode = 0, r;
	MUST(cuCtxSetCurrent(0));
	r = ncclCommInitRank(&c, ranks, meet(0), rank);
	printf("made %d %s\n", r, ncclGetLastError(0));
	MUST(cuCtxGetCurrent(&after));
	MUST(cuThreadExchangeStreamCaptureMode(&mode));
	printf("capture mode %d, %s context\n", mode, before == after ? "the same" : "another");
}

// narrow has only one GPU to see.
static void narrow(void) {
	int number = rank;
	rank = 0;
	device();
	rank = number;
	comm *c = make(0);
	for (int i = 0; i < 2; i++) sum(c, F32, rank, ranks);
	status(c);
}

// words has errors of Weir and of NCCL, one after the other.
static void words(void) {
	comm *c = make(0);
	sum(c, F32, rank, ranks);
	for (int i = 0; i < 3; i++) {
		int type = i % 2 ? 99 : F32, r = ncclAllReduce(i % 2 ? memory : 0, i % 2 ? memory : 0, N, type, SUM, c, stream);
		printf("of %s %d %s\n", i % 2 ? "NCCL" : "Weir", r, ncclGetLastError(c));
	}
	MUST(ncclCommDestroy(c));
	printf("no communicator %d\n", ncclCommDestroy(0));
}

// pair has every two ranks make a communicator of their own, with GPUs that the others do not see.
static void pair(void) {
	int number = rank / 2;
	rank %= 2, ranks = 2;
	device();
	comm *c;
	MUST(ncclCommInitRank(&c, 2, meet(number), rank));
	for (int i = 0; i < 2; i++) sum(c, F32, rank, 2);
	status(c);
}

static void *end_it(void *c) {
	usleep(300000);
	MUST(ncclCommAbort(c));
	return 0;
}

// ended has another thread abort what this one waits for.
static void ended(void) {
	comm *c = begin(0), *part;
	pthread_t thread;
	if (rank) { wait_until_over(); return; }
	if (getenv("SPLIT")) {
		MUST(wait_for(c));
		int r = ncclCommSplit(c, 0, 0, &part, &not_blocking);
		if (r != IN_PROGRESS) { printf("a part at once: %d\n", r); exit(1); }
	}
	double start = now();
	pthread_create(&thread, 0, end_it, c);
	pthread_join(thread, 0);
	printf("came back %s\n", now() - start < 20e9 ? "soon" : "late");
	over();
}

int main(int argc, char **argv) {
	const char *what = argc > 1 ? argv[1] : "";
	setvbuf(stdout, 0, _IOLBF, 0);
	rank = atoi(getenv("NRANK") ? getenv("NRANK") : getenv("WEIR_RANK") ? getenv("WEIR_RANK") : "0");
	ranks = atoi(getenv("NRANKS") ? getenv("NRANKS") : "2");
	if (!strcmp(what, "narrow")) return narrow(), 0;
	if (!strcmp(what, "pair")) return pair(), 0;
	device();
	if (!strcmp(what, "made")) made();
	else if (!strcmp(what, "parts")) parts();
	else if (!strcmp(what, "refused")) refused();
	else if (!strcmp(what, "left")) left();
	else if (!strcmp(what, "ended")) ended();
	else if (!strcmp(what, "words")) words();
	else return with_blocking(argc, argv);
	return 0;
}
