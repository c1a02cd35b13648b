/* Communicators that do not block (ncclConfig_t.blocking = 0) are not ready when the function that makes them returns: the program
 * asks ncclCommGetAsyncError until it says that they are, and uses them for nothing before. So a thread has the ranks agree meanwhile, and
 * the program is told so once that is done too. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dropin.h"

/* Parts that ncclCommSplit has yet to make, of all communicators. */
static served *parts;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* come makes a part that is there a communicator like others. lock is held. */
static void come(served *s) {
	if (s->comm) return;
	__atomic_store_n(&s->comm, s->part, __ATOMIC_RELEASE);
	weir_nccl_know(s->part, s->identity, s->blocking);
	weir_nccl_keep(s);
}

/* arrived waits for a part; 0: its parent has ended first. NCCL bounds it no more than the making of any communicator. */
static int arrived(served *s) {
	for (;; usleep(1000)) {
		pthread_mutex_lock(&lock);
		int here = __atomic_load_n(&s->part, __ATOMIC_ACQUIRE) != NULL, orphan = !s->parent;
		if (here && !orphan) come(s);
		pthread_mutex_unlock(&lock);
		if (here || orphan) return s->comm != NULL;
	}
}

static void agreed(served *s, const char *error) {
	pthread_mutex_lock(&s->alive);
	int ended = !s->comm;
	if (error && !ended) {
		weir_nccl_say("%s", error);
		s->error = strdup(error);
	}
	__atomic_store_n(&s->state, error ? BROKEN : AGREED, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&s->alive);
	if (ended) weir_nccl_drop(s); /* who ended the communicator has left it to this thread */
}

typedef struct {
	int count;
	served *all[];
} batch;

static void *agree(void *of) {
	batch *b = of;
	int n = 0;
	for (int i = 0; i < b->count; i++)
		if (!b->all[i]->parent || arrived(b->all[i])) b->all[n++] = b->all[i];
	weir_nccl_agree_all(b->all, n, agreed);
	free(b);
	return NULL;
}

static void no_thread(served *s) {
	s->error = "no thread can be started in which the ranks agree about Weir";
	__atomic_store_n(&s->state, BROKEN, __ATOMIC_RELEASE);
}

static void wait_for_part(served *s) {
	pthread_mutex_lock(&lock);
	s->more = parts;
	__atomic_store_n(&parts, s, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&lock);
}

ncclResult_t weir_nccl_agree_later(served **all, int count) {
	pthread_t thread;
	batch *b = malloc(sizeof *b + count * sizeof *all);
	for (int i = 0; i < count; i++) {
		all[i]->state = AGREEING;
		if (all[i]->comm) weir_nccl_keep(all[i]);
		else wait_for_part(all[i]);
	}
	if (b) {
		b->count = count;
		memcpy(b->all, all, count * sizeof *all);
	}
	if (b && !pthread_create(&thread, NULL, agree, b)) pthread_detach(thread);
	else {
		free(b);
		for (int i = 0; i < count; i++) no_thread(all[i]);
	}
	return IN_PROGRESS;
}

/* The program waits for a part by asking after its parent; only then is the place where it looks sure to be there. */
ncclResult_t weir_nccl_splitting(ncclComm_t parent) {
	if (!__atomic_load_n(&parts, __ATOMIC_ACQUIRE)) return SUCCESS;
	ncclResult_t r = SUCCESS;
	pthread_mutex_lock(&lock);
	for (served **at = &parts, *s; (s = *at);) {
		int mine = s->parent == parent, here = __atomic_load_n(&s->part, __ATOMIC_ACQUIRE) != NULL;
		if (mine && here) {
			come(s);
			*s->wanted = s->part;
			*at = s->more;
			continue;
		}
		if (mine) r = IN_PROGRESS;
		at = &s->more;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

void weir_nccl_forget_parts(ncclComm_t parent) {
	if (!__atomic_load_n(&parts, __ATOMIC_ACQUIRE)) return;
	pthread_mutex_lock(&lock);
	for (served **at = &parts, *s; (s = *at);) {
		if (s->parent != parent) at = &s->more;
		else {
			s->parent = NULL;
			*at = s->more;
		}
	}
	pthread_mutex_unlock(&lock);
}
