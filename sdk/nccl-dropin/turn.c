/* Several communicators of a process may agree at the same time: of a group call, of several threads, that do not block. The agent tells
 * groups apart by their members alone, so those of two communicators of the same ranks must be formed in the same order on all. A vote
 * says whether a rank has the turn for a communicator; only when all have it the group is formed. The one with the lowest identity of
 * those that wait gets it, and no other while one has it, so that the lowest of all gets through, and then the next. Of those that are not
 * told apart by it any does, and the wait before another try, by chance, decides. */
#include "dropin.h"

static turn *line; /* those that wait, in order */
static turn *now;  /* the one that has it */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void weir_nccl_line_up(turn *t) {
	pthread_mutex_lock(&lock);
	turn **at = &line;
	while (*at && (*at)->identity <= t->identity) at = &(*at)->next;
	t->next = *at;
	*at = t;
	pthread_mutex_unlock(&lock);
}

int weir_nccl_try_turn(turn *t) {
	pthread_mutex_lock(&lock);
	if (!now && line && line->identity == t->identity) now = t;
	t->has = now == t;
	pthread_mutex_unlock(&lock);
	return t->has;
}

void weir_nccl_end_turn(turn *t, int leave) {
	pthread_mutex_lock(&lock);
	if (now == t) now = NULL;
	if (leave)
		for (turn **at = &line; *at; at = &(*at)->next)
			if (*at == t) {
				*at = t->next;
				break;
			}
	pthread_mutex_unlock(&lock);
}
