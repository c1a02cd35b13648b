/* All-gathers over the communicator itself, whose peers may end meanwhile, as it may. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "meeting.h"

enum { LOOK_MS = 100, GONE_MS = 2000 };
const char weir_nccl_ended[] = "the communicator has ended";

int hold(served *s) {
	pthread_mutex_lock(&s->alive);
	if (__atomic_load_n(&s->comm, __ATOMIC_ACQUIRE)) return 1;
	pthread_mutex_unlock(&s->alive);
	return 0;
}
void release(served *s) { pthread_mutex_unlock(&s->alive); }

/* late says why there is no use in waiting on. A rank that has ended may have left what the others wait for on its way to them. */
static const char *late(meeting *m) {
	static __thread char text[64];
	int64_t now = weir_nccl_now_ms();
	if (m->peers && !m->gone && now >= m->look) {
		m->look = now + LOOK_MS;
		for (int r = 0; r < m->size && !m->gone; r++)
			if (weir_nccl_has_ended(&m->peers[r], &m->peers[m->rank])) m->gone = r + 1;
		if (m->gone && m->end > now + GONE_MS) m->end = now + GONE_MS;
	}
	if (now <= m->end) return NULL;
	if (!m->gone) return "a rank did not answer in time";
	snprintf(text, sizeof text, "rank %d (process %d) has ended", m->gone - 1, m->peers[m->gone - 1].pid);
	return text;
}

const char *await(meeting *m) {
	for (const char *error;; usleep(500)) {
		if (!hold(m->of)) return weir_nccl_ended;
		ncclResult_t now = IN_PROGRESS, r = real_ncclCommGetAsyncError(m->comm, &now);
		release(m->of);
		if (r != SUCCESS || (now != SUCCESS && now != IN_PROGRESS)) return "the communicator has an error";
		if (now == SUCCESS) return NULL;
		if ((error = late(m))) return error;
	}
}

const char *put(meeting *m, const vote *own, int64_t timeout_ms) {
	size_t at = m->rank * sizeof *own;
	m->end = weir_nccl_now_ms() + timeout_ms;
	memcpy((char *)m->room.host + at, own, sizeof *own);
	return weir_nccl_upload(&m->room, at, sizeof *own);
}

ncclResult_t all_gather(const meeting *m) {
	uint64_t memory = m->room.memory;
	return real_ncclAllGather((void *)(memory + m->rank * sizeof(vote)), (void *)memory, sizeof(vote), NCCL_UINT8, m->comm, m->room.stream);
}

const char *get(meeting *m, ncclResult_t r) {
	const char *error, *why;
	if (r != SUCCESS && r != IN_PROGRESS) return "an all-gather of the communicator failed";
	if ((r == IN_PROGRESS && (error = await(m))) || (error = weir_nccl_download(&m->room))) return error;
	for (; (error = weir_nccl_done(&m->room)) == weir_nccl_not_yet; usleep(50)) {
		if (!__atomic_load_n(&m->of->comm, __ATOMIC_ACQUIRE)) return weir_nccl_ended;
		if ((why = late(m))) return why;
	}
	m->votes = m->room.host;
	return error ? error : await(m); /* or it has only left, because the communicator has ended or failed */
}

const char *gather(meeting *m, const vote *own, int64_t timeout_ms) {
	const char *error = put(m, own, timeout_ms);
	if (error) return error;
	if (!hold(m->of)) return weir_nccl_ended;
	ncclResult_t r = all_gather(m);
	release(m->of);
	return get(m, r);
}
