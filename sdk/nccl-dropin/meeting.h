/* How the ranks of a communicator that is to be agreed on tell each other what they know. */
#ifndef WEIR_NCCL_MEETING_H
#define WEIR_NCCL_MEETING_H

#include "dropin.h"

typedef struct {
	uint32_t magic;
	uint32_t types; /* of the last round: what this rank has seen to be served */
	int32_t ok;
	int32_t turn; /* of the second: it may form a group now */
	int32_t most; /* sums of one group call that may be Weir's */
	own_rank self;
	who process;
} vote;
enum { MAGIC = 0x77656904, FIRST_MS = 60000, LATER_MS = 20 * 60000 };

typedef struct {
	served *of;
	ncclComm_t comm;
	int rank, size;
	device_room room;
	vote *votes;

	int64_t end, look; /* of what is waited for, and when to look after the peers */
	who *peers;        /* by rank, once all have said who they are */
	int gone;          /* 1 + a rank whose process has ended */
} meeting;

int hold(served *s);      /* keeps other threads from ending a communicator; 0: one has */
void release(served *s);
const char *await(meeting *m); /* waits until a communicator that does not block has done what it was asked for */
const char *gather(meeting *m, const vote *own, int64_t timeout_ms); /* gives every rank's vote to every rank */
const char *put(meeting *m, const vote *own, int64_t timeout_ms);    /* what gather does before the all-gather … */
ncclResult_t all_gather(const meeting *m);
const char *get(meeting *m, ncclResult_t r);                         /* … and after it */

#endif
