// The fake NCCL's group calls, which are a thread's: what is asked for between start and end is done at the end of the outermost.
// Communicators are made on threads, all at the same time; one that cannot be made ends the others. Collectives are sorted, by communicator
// and size, and each communicator's are behind and before the work on all streams that it is given. An error of a call is that of the
// end. A group call of communicators that do not block is done by a thread.
static void *driver(const char *name);
static int enqueue(const call *of, void *stream);
static __thread int depth, failed, mode = -1; // mode: whether what is asked for blocks; -1: nothing is

typedef struct job {
	int (*run)(void *);
	void *argument;
	comm *of, *made; // whose state tells; what it makes
	int result, done;
	pthread_t thread;
	struct job *next, *after; // one of the same parent, which is split first
} job;
typedef struct work { call of; void *stream; struct work *next; } work;
typedef struct { job *jobs; work *all; void *context; } group;
static __thread group own;

// noted is what a function returns; a group call fails with it.
static int noted(int r) {
	if (depth && r && r != IN_PROGRESS) failed = r;
	return r;
}

static void *run_job(void *argument) {
	job *j = argument;
	while (j->after && !__atomic_load_n(&j->after->done, __ATOMIC_SEQ_CST)) usleep(100);
	j->result = j->run(j->argument);
	__atomic_store_n(&j->done, 1, __ATOMIC_SEQ_CST);
	return 0;
}
static int run_jobs(job *jobs) {
	int r = SUCCESS;
	for (job *j = jobs; j; j = j->next) pthread_create(&j->thread, 0, run_job, j);
	for (int left = 1; left; usleep(100)) {
		left = 0;
		for (job *j = jobs; j; j = j->next) {
			if (!__atomic_load_n(&j->done, __ATOMIC_SEQ_CST)) left = 1;
			else if (j->result && !r) r = j->result;
			if (r) __atomic_store_n(&(j->made ? j->made : j->of)->aborted, 1, __ATOMIC_SEQ_CST);
		}
	}
	for (job *j = jobs; j; j = j->next) pthread_join(j->thread, 0);
	return r;
}

static int size_of(const call *k);
static int before(const work *a, const work *b) {
	if (a->of.c->name != b->of.c->name) return a->of.c->name < b->of.c->name;
	return a->of.n * size_of(&a->of) > b->of.n * size_of(&b->of); // the largest first
}
static void sort(work **all) {
	work *sorted = 0;
	for (work *w = *all, *next; w; w = next) {
		work **at = &sorted;
		next = w->next;
		while (*at && !before(w, *at)) at = &(*at)->next;
		w->next = *at;
		*at = w;
	}
	*all = sorted;
}
// join has the first stream of a communicator's work wait for its others, or those for it.
static int join(work *first, int gather) {
	int (*create)(void **, unsigned) = driver("cuEventCreate"), (*record)(void *, void *) = driver("cuEventRecord"), (*wait)(void *, void *, unsigned) = driver("cuStreamWaitEvent");
	void *event;
	int r = SUCCESS, some = 0;
	for (work *w = first->next; create && w && w->of.c == first->of.c; w = w->next) {
		if (w->stream == first->stream) continue;
		if (!some++) create(&event, 2);
		r |= record(event, gather ? w->stream : first->stream) | wait(gather ? first->stream : w->stream, event, 0);
	}
	if (r) say(first->of.c->rank, "streams of a group call are not all captured by the same graph");
	return r ? INVALID_USAGE : SUCCESS;
}
static int launch_all(work *all) {
	int r = SUCCESS;
	sort(&all);
	for (work *first = all, *w; first && !r; first = w) {
		r = join(first, 1);
		for (w = first; w && w->of.c == first->of.c; w = w->next)
			if (!r) r = enqueue(&w->of, first->stream);
		if (!r) r = join(first, 0);
	}
	return r;
}

static void set_states(const group *g, int state) {
	for (job *j = g->jobs; j; j = j->next) __atomic_store_n(&j->of->state, state, __ATOMIC_SEQ_CST);
	for (work *w = g->all; w; w = w->next) __atomic_store_n(&w->of.c->state, state, __ATOMIC_SEQ_CST);
}
static int do_all(const group *g, int simulate) {
	int r = run_jobs(g->jobs);
	return r || simulate ? r : launch_all(g->all);
}
static void *in_background(void *argument) {
	group *g = argument;
	int (*set)(void *) = (int (*)(void *))driver("cuCtxSetCurrent");
	if (set) set(g->context);
	usleep(10000); // so that who does not wait is found out
	set_states(g, do_all(g, 0));
	return 0;
}

static int add(comm *c) {
	if (mode >= 0 && mode != c->blocking) {
		say(c->rank, "Blocking and nonblocking communicators are not allowed in the same group");
		return noted(INVALID_ARGUMENT);
	}
	mode = c->blocking;
	return SUCCESS;
}
// launch_job does what makes a communicator: now, or in a group call at its end, or on a thread.
static int launch_job(int (*run)(void *), void *argument, comm *of, comm *made, int in_its_time) {
	job *j = calloc(1, sizeof *j);
	*j = (job){.run = run, .argument = argument, .of = of, .made = made};
	if (depth) {
		int r = add(of);
		if (r) return r;
		job **at = &own.jobs;
		for (; *at; at = &(*at)->next)
			if ((*at)->of == of) j->after = *at;
		*at = j;
		return SUCCESS;
	}
	if (!(made && made->blocking) && in_its_time) {
		group *g = calloc(1, sizeof *g);
		*g = (group){.jobs = j, .context = current()};
		set_states(g, IN_PROGRESS);
		pthread_t thread;
		pthread_create(&thread, 0, in_background, g);
		pthread_detach(thread);
		return IN_PROGRESS;
	}
	int r = run(argument);
	return r || !made || made->blocking ? r : IN_PROGRESS;
}
static int start(call of, void *stream) {
	of.c->calls++;
	if (!depth) return enqueue(&of, stream);
	int r = add(of.c);
	if (r) return r;
	work *w = malloc(sizeof *w), **at = &own.all;
	*w = (work){of, stream, 0};
	while (*at) at = &(*at)->next;
	*at = w;
	return SUCCESS;
}

static int end_group(int simulate) {
	if (!depth) { say(-1, "ncclGroupEnd: not in a group call"); return INVALID_USAGE; }
	if (--depth) return SUCCESS;
	int r = trouble("ncclGroupEnd", process_rank);
	group *g = malloc(sizeof *g);
	*g = own;
	g->context = current();
	if (failed) r = failed;
	int background = !mode && (g->jobs || g->all);
	own = (group){0};
	failed = 0, mode = -1;
	if (r) return r;
	if (!background) return do_all(g, simulate);
	set_states(g, IN_PROGRESS);
	pthread_t thread;
	pthread_create(&thread, 0, in_background, g);
	pthread_detach(thread);
	return IN_PROGRESS;
}
typedef struct { size_t size; unsigned magic, version; float time; } simulation;
int ncclGroupStart(void) { depth++; return SUCCESS; }
int ncclGroupEnd(void) { return end_group(0); }
int ncclGroupSimulateEnd(simulation *s) {
	int works = 0;
	for (work *w = own.all; w; w = w->next) works++;
	if (s && depth == 1 && s->magic != 0x74685283) failed = INVALID_ARGUMENT;
	int r = end_group(s != 0);
	if (s && !depth && !r && works) s->time = works;
	return r;
}
