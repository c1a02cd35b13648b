/* What is known of every communicator, whoever serves it: a name for it that is the same on all its ranks, from which follow those of what
 * comes of it, and whether it blocks. */
#include <stdlib.h>

#include "dropin.h"

typedef struct known {
	struct known *next;
	ncclComm_t comm;
	origin of;
	uint64_t children;
} known;
static known *all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

uint64_t weir_nccl_identity(const void *data, size_t size) {
	uint64_t h = 0xcbf29ce484222325;
	for (const unsigned char *p = data; size--; p++) h = (h ^ *p) * 0x100000001b3;
	return h ? h : 1;
}

/* find is where a communicator is, or the end of the list. lock is held. */
static known **find(ncclComm_t comm) {
	known **at = &all;
	while (*at && (*at)->comm != comm) at = &(*at)->next;
	return at;
}

void weir_nccl_know(ncclComm_t comm, uint64_t identity, int blocking) {
	pthread_mutex_lock(&lock);
	known *k = *find(comm); /* of one that ended unseen, in the same place */
	if (!k && (k = calloc(1, sizeof *k))) {
		k->next = all;
		all = k;
	}
	if (k) *k = (known){.next = k->next, .comm = comm, .of = {identity, blocking}};
	pthread_mutex_unlock(&lock);
}

void weir_nccl_forget(ncclComm_t comm) {
	pthread_mutex_lock(&lock);
	known **at = find(comm), *k = *at;
	if (k) *at = k->next;
	pthread_mutex_unlock(&lock);
	free(k);
}

origin weir_nccl_origin(ncclComm_t comm) {
	pthread_mutex_lock(&lock);
	const known *k = *find(comm);
	origin o = k ? k->of : (origin){0, 1};
	pthread_mutex_unlock(&lock);
	return o;
}

/* All ranks of a communicator make what comes of it in the same order, so the number tells which one it is. */
uint64_t weir_nccl_child(ncclComm_t parent, uint64_t what) {
	pthread_mutex_lock(&lock);
	known *k = *find(parent);
	uint64_t of[] = {k ? k->of.identity : 0, k ? ++k->children : 0, what};
	pthread_mutex_unlock(&lock);
	return of[0] ? weir_nccl_identity(of, sizeof of) : 0;
}
