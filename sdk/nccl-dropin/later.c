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

static void *agree(void *of) {
	served *s = of;
	if (s->wanted && !arrived(s)) return NULL;
	const char *error = weir_nccl_agree(s);
	pthread_mutex_lock(&s->alive);
	int ended = !s->comm;
	if (error && !ended) {
		weir_nccl_say("%s", error);
		s->error = strdup(error);
	}
	__atomic_store_n(&s->state, error ? BROKEN : AGREED, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&s->alive);
	weir_group group = ended ? __atomic_exchange_n(&s->group, 0, __ATOMIC_ACQ_REL) : 0;
	if (group) weir_nccl_weir.close(group); /* who ended the communicator has left it to this thread */
	return NULL;
}

static ncclResult_t on_its_own(served *s) {
	pthread_t thread;
	int failed = pthread_create(&thread, NULL, agree, s);
	if (!failed) pthread_detach(thread);
	else {
		s->error = "no thread can be started in which the ranks agree about Weir";
		__atomic_store_n(&s->state, BROKEN, __ATOMIC_RELEASE);
	}
	return IN_PROGRESS;
}

ncclResult_t weir_nccl_agree_later(served *s) {
	s->state = AGREEING;
	weir_nccl_keep(s);
	return on_its_own(s);
}

ncclResult_t weir_nccl_split_later(served *s) {
	s->state = AGREEING;
	pthread_mutex_lock(&lock);
	s->more = parts;
	__atomic_store_n(&parts, s, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&lock);
	return on_its_own(s);
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
