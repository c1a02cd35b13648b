// Group calls: grouped.c SCENARIO, beside what ranks.c has. Every communicator that is made has ranks ranks, and two of them are told apart
// by what is summed on them.
#define main without_groups
#include "ranks.c"
#undef main
#include <pthread.h>

enum { IN_PROGRESS = 7, STREAMS = 3 };
typedef struct { size_t size; unsigned magic, version; float time; } simulation;
int ncclCommInitAll(comm **, int, const int *), ncclGroupSimulateEnd(simulation *), ncclCommSplit(comm *, int, int, comm **, void *);
int ncclBroadcast(const void *, void *, size_t, int, int, comm *, void *);
int cuLaunchHostFunc(void *, void (*)(void *), void *), cuMemcpyDtoDAsync_v2(void *, void *, size_t, void *), cuStreamIsCapturing(void *, int *);
int cuEventCreate(void **, unsigned), cuEventRecord(void *, void *), cuStreamWaitEvent(void *, void *, unsigned);
static config not_blocking = {sizeof(config), 0xcafebeef, 22809, 0, {0}}, blocking = {sizeof(config), 0xcafebeef, 22809, 1, {0}};

// ask asks for a communicator in a group call.
static void ask(comm **c, int number) { MUST(ncclCommInitRankConfig(c, ranks, meet(number), rank, &blocking)); }
static comm *made_in_group(int number) {
	comm *c;
	MUST(ncclGroupStart());
	ask(&c, number);
	MUST(ncclGroupEnd());
	return c;
}
static int wait_for(comm *c) {
	for (int now, i = 0; ; usleep(1000)) {
		MUST(ncclCommGetAsyncError(c, &now));
		if (now != IN_PROGRESS) return now;
		if (i++ > 60000) { printf("rank %d: in progress for ever\n", rank); exit(1); }
	}
}
// two_sums has different numbers on each of two communicators.
static void two_sums(comm *x, comm *y) {
	for (int i = 0; i < 2; i++) {
		sum(x, F32, rank, ranks);
		fill(F32, rank + 10);
		MUST(ncclAllReduce(memory, memory, N, F32, SUM, y, stream));
		static float f[N];
		MUST(cuStreamSynchronize(stream));
		MUST(cuMemcpyDtoH_v2(f, memory, sizeof f));
		float want = ranks * (ranks + 1) / 2 + 10 * ranks;
		if (f[0] != want) { printf("rank %d: %g on the second communicator, want %g\n", rank, f[0], want); exit(1); }
	}
}

static void made(void) {
	comm *c;
	MUST(ncclGroupStart());
	MUST(ncclGroupStart());
	ask(&c, 0);
	MUST(ncclGroupEnd());
	MUST(ncclGroupEnd());
	for (int i = 0; i < 2; i++) sum(c, F32, rank, ranks);
	MUST(ncclGroupStart()); // one that one rank puts into a group call and the other does not
	if (rank) MUST(ncclGroupEnd());
	fill(F32, rank);
	MUST(ncclAllReduce(memory, memory, N, F32, SUM, c, stream));
	if (!rank) MUST(ncclGroupEnd());
	check(F32, ranks);
	captured(c);
	status(c);
	printf("end without start %d\n", ncclGroupEnd());
	MUST(ncclCommDestroy(c));
}

// crossed makes two communicators in one group call, in another order on each rank.
static void crossed(void) {
	comm *both[2];
	MUST(ncclGroupStart());
	for (int i = 0; i < 2; i++) ask(&both[(i + rank) % 2], (i + rank) % 2);
	MUST(ncclGroupEnd());
	two_sums(both[0], both[1]);
	MUST(ncclGroupStart()); // sums of both in one
	fill(F32, rank);
	MUST(ncclAllReduce(memory, memory, N / 2, F32, SUM, both[0], stream));
	MUST(ncclAllReduce((char *)memory + N / 2 * 4, (char *)memory + N / 2 * 4, N / 2, F32, SUM, both[1], stream));
	MUST(ncclGroupEnd());
	check(F32, ranks);
	status(both[0]);
}

// Communicators of two threads, which begin with the other one on the other rank; and those that do not block, made one after the other.
enum { PAIRS = 4 };
static comm *of_thread[2 * PAIRS];
static void *context_of_all;
static void *make_in_thread(void *number) {
	int n = (int)(intptr_t)number;
	MUST(cuCtxSetCurrent(context_of_all));
	usleep(n % 2 == rank ? 0 : 50000); // a chance for each order; either is to be right
	of_thread[n] = made_in_group(n);
	return 0;
}
static void in_threads(void) {
	pthread_t threads[2 * PAIRS];
	MUST(cuDevicePrimaryCtxRetain(&context_of_all, rank));
	for (int i = 0; i < 2 * PAIRS; i++) pthread_create(&threads[i], 0, make_in_thread, (void *)(intptr_t)i);
	for (int i = 0; i < 2 * PAIRS; i++) pthread_join(threads[i], 0);
	for (int i = 0; i < PAIRS; i++) two_sums(of_thread[2 * i], of_thread[2 * i + 1]);
	status(of_thread[0]);
}
static void in_turns(void) {
	comm *both[2];
	int grouped = getenv("GROUPED") != 0;
	if (grouped) MUST(ncclGroupStart());
	for (int i = 0; i < 2; i++) {
		int n = (i + rank) % 2, r = ncclCommInitRankConfig(&both[n], ranks, meet(n), rank, &not_blocking);
		if (r && r != IN_PROGRESS) MUST(r);
	}
	if (grouped && ncclGroupEnd() != IN_PROGRESS) printf("the group call is not in progress\n");
	for (int i = 0; i < 2; i++) MUST(wait_for(both[i]));
	two_sums(both[0], both[1]);
	status(both[0]);
	MUST(ncclGroupStart()); // NCCL's
	fill(F32, rank);
	MUST(ncclAllReduce(memory, memory, N, F32, SUM, both[0], stream));
	int r = ncclGroupEnd();
	if (r != IN_PROGRESS) MUST(r);
	MUST(wait_for(both[0]));
	check(F32, ranks);
	status(both[0]);
}

// slow is work on a stream that takes its time, and then fills.
typedef struct { float *to; int with; } work;
static void slow(void *of) {
	work *w = of;
	usleep(100000);
	for (int i = 0; i < N; i++) w->to[i] = w->with + i % 5;
}
static void expect(const char *what, const float *got, float first) {
	static float f[N];
	MUST(cuMemcpyDtoH_v2(f, (void *)got, sizeof f));
	for (int i = 0; i < N; i++)
		if (f[i] != first + ranks * (i % 5)) { printf("rank %d: %s: element %d is %g, want %g\n", rank, what, i, f[i], first + ranks * (i % 5)); exit(1); }
}

// mixed has on three streams two sums of Weir's, a sum of float64 and a broadcast, which are NCCL's. Work before is slow, and each stream
// then reads what has come about on another.
static void mixed(void) {
	comm *c = made_in_group(0);
	float *data[5];
	void *streams[STREAMS], *copies[STREAMS], *graph, *run, *fork;
	static const int of[STREAMS] = {4, 0, 1};
	int capture = getenv("CAPTURE") != 0;
	for (int i = 0; i < 5; i++) MUST(cuMemAlloc_v2((void **)&data[i], N * 8));
	for (int i = 0; i < STREAMS; i++) {
		MUST(cuMemAlloc_v2(&copies[i], N * 4));
		MUST(cuStreamCreate(&streams[i], 1));
	}
	MUST(cuEventCreate(&fork, 2));
	for (int round = 0; round < 2; round++) {
		work works[3] = {{data[0], rank + 1}, {data[1], 2 * (rank + 1)}, {data[2], rank + 1}};
		if (capture) {
			MUST(cuStreamBeginCapture_v2(streams[0], 0));
			MUST(cuEventRecord(fork, streams[0]));
			for (int i = 1; i < STREAMS; i++) MUST(cuStreamWaitEvent(streams[i], fork, 0));
		}
		MUST(cuLaunchHostFunc(streams[2], slow, &works[1]));
		for (int i = 0; i < 3; i += 2) MUST(cuLaunchHostFunc(streams[0], slow, &works[i])); // later than those
		MUST(ncclGroupStart());
		MUST(ncclAllReduce(data[0], data[0], N, F32, SUM, c, streams[0]));
		MUST(ncclAllReduce(data[3], data[3], N / 2, F64, SUM, c, streams[1]));
		MUST(ncclGroupStart());
		MUST(ncclAllReduce(data[1], data[1], N, F32, SUM, c, streams[1]));
		MUST(ncclGroupEnd());
		MUST(ncclBroadcast(data[2], data[4], N, F32, 0, c, streams[2]));
		MUST(ncclGroupEnd());
		for (int i = 0; i < STREAMS; i++) MUST(cuMemcpyDtoDAsync_v2(copies[i], data[of[i]], N * 4, streams[i])); // each of what another had
		for (int i = 1; capture && i < STREAMS; i++) {
			MUST(cuEventRecord(fork, streams[i]));
			MUST(cuStreamWaitEvent(streams[0], fork, 0));
		}
		if (capture) {
			MUST(cuStreamEndCapture(streams[0], &graph));
			MUST(cuGraphInstantiateWithFlags(&run, graph, 0));
			MUST(cuGraphLaunch(run, streams[0]));
		}
		for (int i = 0; i < STREAMS; i++) MUST(cuStreamSynchronize(streams[i]));
		expect("the first sum", copies[1], ranks * (ranks + 1) / 2);
		expect("the second", copies[2], ranks * (ranks + 1));
		static float f[N];
		MUST(cuMemcpyDtoH_v2(f, copies[0], sizeof f));
		if (f[0] != 1 || f[4] != 5) { printf("rank %d: the broadcast gave %g %g\n", rank, f[0], f[4]); exit(1); }
	}
	status(c);
}

// many has as many sums in a group call as the second argument says, eager and captured.
static void many(int count) {
	comm *c = made_in_group(0);
	float *data;
	void *graph, *run;
	MUST(cuMemAlloc_v2((void **)&data, (size_t)count * N * 4));
	for (int capture = 0; capture < 2; capture++) {
		float *host = malloc((size_t)count * N * 4);
		for (int k = 0; k < count; k++) for (int i = 0; i < N; i++) host[k * N + i] = rank + 1 + k + i % 5;
		MUST(cuMemcpyHtoD_v2(data, host, (size_t)count * N * 4));
		MUST(cuStreamSynchronize(NULL)); // the stream does not wait for the default one
		if (capture) MUST(cuStreamBeginCapture_v2(stream, 1));
		MUST(ncclGroupStart());
		for (int k = 0; k < count; k++) MUST(ncclAllReduce(data + k * N, data + k * N, k % 3 ? N : N / 2, F32, SUM, c, stream));
		MUST(ncclGroupEnd());
		if (capture) {
			MUST(cuStreamEndCapture(stream, &graph));
			MUST(cuGraphInstantiateWithFlags(&run, graph, 0));
			MUST(cuGraphLaunch(run, stream));
		}
		MUST(cuStreamSynchronize(stream));
		MUST(cuMemcpyDtoH_v2(host, data, (size_t)count * N * 4));
		for (int k = 0; k < count; k++)
			for (int i = 0; i < (k % 3 ? N : N / 2); i++) {
				float want = ranks * (ranks + 1) / 2 + ranks * (k + i % 5);
				if (host[k * N + i] != want) { printf("rank %d: sum %d, element %d is %g, want %g\n", rank, k, i, host[k * N + i], want); exit(1); }
			}
	}
	status(c);
}

// errors has group calls that fail, each followed by one that does not.
static void errors(void) {
	comm *c = made_in_group(0), *both[2];
	MUST(ncclGroupStart());
	MUST(ncclAllReduce(memory, memory, N, F32, SUM, c, stream));
	int r = ncclAllReduce(memory, memory, N, 99, SUM, c, stream);
	printf("of NCCL %d, end %d\n", r, ncclGroupEnd());
	sum(c, F32, rank, ranks); // the sum before has not begun, or this one would be another
	MUST(ncclGroupStart());
	ncclCommInitRankConfig(&both[0], ranks, meet(1), rank, &blocking);
	r = ncclCommInitRankConfig(&both[1], ranks, meet(2), ranks + 1, &blocking);
	printf("of a communicator %d, end %d\n", r, ncclGroupEnd());
	MUST(ncclGroupStart());
	fill(F32, rank);
	MUST(ncclAllReduce(memory, memory, N, F32, SUM, c, stream));
	MUST(ncclGroupEnd());
	check(F32, ranks);
	status(c);
	MUST(ncclGroupStart());
	MUST(ncclAllReduce(0, 0, N, F32, SUM, c, stream));
	MUST(ncclAllReduce(memory, memory, N, F32, SUM, c, stream));
	r = ncclGroupEnd();
	printf("of Weir, end %d %s\n", r, ncclGetLastError(c));
}
// unmade asks for two communicators of which none can be made.
static void unmade(void) {
	comm *both[2];
	MUST(ncclGroupStart());
	for (int i = 0; i < 2; i++) ask(&both[i], i);
	printf("end %d\n", ncclGroupEnd());
	if (rank) over();
	else wait_until_over(); // whose process has the unique ids
}
// refused makes two of which the ranks cannot agree.
static void refused(void) {
	comm *both[2];
	MUST(ncclGroupStart());
	for (int i = 0; i < 2; i++) ask(&both[i], i);
	int r = ncclGroupEnd();
	if (rank) { wait_until_over(); return; }
	printf("end %d %s\n", r, ncclGetLastError(0));
	for (int i = 0; i < 2; i++) MUST(ncclCommAbort(both[i])); // as of one that NCCL could not make
	printf("ended\n");
	over();
}

// simulated asks what group calls would take.
static void simulated(void) {
	comm *c;
	simulation s = {sizeof s, 0x74685283, 22809, -1};
	MUST(ncclGroupStart());
	ask(&c, 0);
	MUST(ncclGroupSimulateEnd(&s)); // communicators are made nevertheless
	s.time = -1;
	fill(F32, rank);
	MUST(ncclGroupStart());
	MUST(ncclGroupStart());
	for (int i = 0; i < 2; i++) MUST(ncclAllReduce(memory, memory, N, F32, SUM, c, stream));
	MUST(ncclGroupEnd());
	MUST(ncclGroupSimulateEnd(&s));
	MUST(cuStreamSynchronize(stream));
	float f;
	MUST(cuMemcpyDtoH_v2(&f, memory, sizeof f));
	printf("time %g, the data are %s\n", s.time, f == rank + 1 ? "as before" : "others");
	simulation bad = {sizeof bad, 1, 22809, -1};
	MUST(ncclGroupStart());
	MUST(ncclAllReduce(memory, memory, N, F32, SUM, c, stream));
	printf("not initialised %d\n", ncclGroupSimulateEnd(&bad));
	MUST(ncclGroupStart());
	MUST(ncclAllReduce(memory, memory, N, F32, SUM, c, stream));
	MUST(ncclGroupSimulateEnd(0)); // which is the end
	check(F32, ranks);
	status(c);
}

// parts splits in group calls; the handle is there at the end and not before.
static void parts(void) {
	comm *c = made_in_group(0), *half = (comm *)1, *all = (comm *)1, *none = (comm *)1;
	int later = getenv("LATER") != 0, mine, world = (ranks + 1 - rank % 2) / 2;
	if (later) {
		MUST(ncclCommDestroy(c));
		MUST(ncclGroupStart());
		MUST(ncclCommInitRankConfig(&c, ranks, meet(1), rank, &not_blocking));
		if (ncclGroupEnd() != IN_PROGRESS) printf("the group call is not in progress\n");
		MUST(wait_for(c));
	}
	MUST(ncclGroupStart());
	int r[] = {ncclCommSplit(c, rank % 2, -rank, &half, 0), ncclCommSplit(c, 0, 0, &all, 0), ncclCommSplit(c, rank ? 0 : -1, 0, &none, 0)};
	if (r[0] || r[1] || r[2] || half || all || none) { printf("rank %d: parts before the end: %d %d %d, %p %p %p\n", rank, r[0], r[1], r[2], (void *)half, (void *)all, (void *)none); exit(1); }
	int end = ncclGroupEnd();
	if (end != (later ? IN_PROGRESS : 0)) { printf("rank %d: the end is %d\n", rank, end); exit(1); }
	if (later) {
		MUST(wait_for(c));
		MUST(wait_for(half));
		MUST(wait_for(all));
		if (none) MUST(wait_for(none));
	}
	if (!half || !all || !rank != !none) { printf("rank %d: no part\n", rank); exit(1); }
	MUST(ncclCommUserRank(half, &mine));
	sum(half, F32, mine, world);
	sum(all, F32, rank, ranks);
	status(c);
}

// split_threads has a thread in a group call while another makes a communicator, outside of one; and a group call of a thread that has made
// none.
static comm *other;
static pthread_barrier_t step;
static void *makes(void *unused) {
	MUST(cuCtxSetCurrent(context_of_all));
	pthread_barrier_wait(&step);
	other = make(0);
	pthread_barrier_wait(&step);
	return unused;
}
static void split_threads(void) {
	pthread_t thread;
	MUST(cuDevicePrimaryCtxRetain(&context_of_all, rank));
	pthread_barrier_init(&step, 0, 2);
	pthread_create(&thread, 0, makes, 0);
	MUST(ncclGroupStart());
	pthread_barrier_wait(&step);
	pthread_barrier_wait(&step);
	fill(F32, rank);
	for (int i = 0; i < 2; i++) MUST(ncclAllReduce((char *)memory + i * N * 2, (char *)memory + i * N * 2, N / 2, F32, SUM, other, stream));
	MUST(ncclGroupEnd());
	check(F32, ranks);
	pthread_join(thread, 0);
	sum(other, F32, rank, ranks);
	status(other);
}

// several has as many ranks in this process as EACH says: in one group call, by ncclCommInitAll, and parts of those.
static void several(int each) {
	enum { MOST = 4 };
	comm *all[MOST], *halves[MOST];
	void *contexts[MOST], *data[MOST], *streams[MOST];
	int first = rank * each, world = ranks * each, n = rank < ranks - 1 || !getenv("LAST") ? each : atoi(getenv("LAST"));
	if (getenv("LAST")) world = (ranks - 1) * each + atoi(getenv("LAST"));
	for (int i = 0; i < n; i++) {
		MUST(cuDevicePrimaryCtxRetain(&contexts[i], first + i));
		MUST(cuCtxSetCurrent(contexts[i]));
		MUST(cuMemAlloc_v2(&data[i], N * 4));
		MUST(cuStreamCreate(&streams[i], 1));
	}
	int only = ranks == 1;
	for (int how = 0; how <= only; how++) {
		id i = meet(how);
		if (how) MUST(ncclCommInitAll(all, n, 0));
		MUST(ncclGroupStart());
		for (int k = 0; k < n && !how; k++) {
			MUST(cuCtxSetCurrent(contexts[k]));
			MUST(ncclCommInitRank(&all[k], world, i, first + k));
		}
		MUST(ncclGroupEnd());
		MUST(ncclGroupStart());
		for (int k = 0; k < n; k++) MUST(ncclCommSplit(all[k], 0, k, &halves[k], 0));
		MUST(ncclGroupEnd());
		for (int k = 0; k < n; k++) {
			float host[N];
			for (int e = 0; e < N; e++) host[e] = first + k + 1 + e % 5;
			MUST(cuCtxSetCurrent(contexts[k]));
			MUST(cuMemcpyHtoD_v2(data[k], host, sizeof host));
			MUST(cuStreamSynchronize(NULL)); // as above
		}
		MUST(ncclGroupStart());
		for (int k = 0; k < n; k++) MUST(ncclAllReduce(data[k], data[k], N, F32, SUM, how ? halves[k] : all[k], streams[k]));
		MUST(ncclGroupEnd());
		for (int k = 0; k < n; k++) {
			float host[N];
			MUST(cuCtxSetCurrent(contexts[k]));
			MUST(cuStreamSynchronize(streams[k]));
			MUST(cuMemcpyDtoH_v2(host, data[k], sizeof host));
			if (host[0] != world * (world + 1) / 2) { printf("rank %d: %g\n", first + k, host[0]); exit(1); }
		}
	}
	printf("right, threads %d\n", threads());
}

// alone makes many communicators that are NCCL's.
static void alone(int count) {
	for (int i = 0; i < count; i++) {
		comm *c = made_in_group(i);
		sum(c, F32, rank, ranks);
		MUST(ncclCommDestroy(c));
	}
}

int main(int argc, char **argv) {
	const char *what = argc > 1 ? argv[1] : "";
	int number = argc > 2 ? atoi(argv[2]) : 1;
	setvbuf(stdout, 0, _IOLBF, 0);
	rank = atoi(getenv("NRANK") ? getenv("NRANK") : getenv("WEIR_RANK") ? getenv("WEIR_RANK") : "0");
	ranks = atoi(getenv("NRANKS") ? getenv("NRANKS") : "2");
	if (!strcmp(what, "several")) return cuInit(0), several(number), 0;
	device();
	if (!strcmp(what, "made")) made();
	else if (!strcmp(what, "crossed")) crossed();
	else if (!strcmp(what, "in threads")) in_threads();
	else if (!strcmp(what, "in turns")) in_turns();
	else if (!strcmp(what, "mixed")) mixed();
	else if (!strcmp(what, "many")) many(number);
	else if (!strcmp(what, "errors")) errors();
	else if (!strcmp(what, "unmade")) unmade();
	else if (!strcmp(what, "refused")) refused();
	else if (!strcmp(what, "simulated")) simulated();
	else if (!strcmp(what, "parts")) parts();
	else if (!strcmp(what, "split threads")) split_threads();
	else if (!strcmp(what, "alone")) alone(number);
	else return without_groups(argc, argv);
	return 0;
}
