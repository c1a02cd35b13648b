/* One line on standard error for every communicator. Many that NCCL serves alone for one reason are counted instead, once there are some. */
#include <stdio.h>

#include "dropin.h"

enum { REASONS = 32, EACH = 8 };

/* times is how often a reason has been given; more than REASONS share the last place. */
static unsigned times(const char *why) {
	static struct {
		uint64_t reason;
		unsigned times;
	} given[REASONS];
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	uint64_t reason = 0xcbf29ce484222325;
	for (const char *p = why; *p; p++) reason = (reason ^ (unsigned char)*p) * 0x100000001b3;
	pthread_mutex_lock(&lock);
	int i = 0;
	while (i < REASONS - 1 && given[i].times && given[i].reason != reason) i++;
	given[i].reason = reason;
	unsigned n = ++given[i].times;
	pthread_mutex_unlock(&lock);
	return n;
}

void weir_nccl_tell_alone(int ranks, const char *why) {
	unsigned n = times(why);
	char count[64] = "";
	int version = 0;
	if (n > EACH && (n & (n - 1))) return;
	if (n == EACH) snprintf(count, sizeof count, " (%u communicators so far; from here on at twice as many)", n);
	else if (n > 1) snprintf(count, sizeof count, " (%u communicators so far)", n);
	real_ncclGetVersion(&version);
	weir_nccl_say("NCCL %d of %s serves this communicator of %d rank%s alone, because %s%s", version, weir_nccl_real_path(), ranks, ranks == 1 ? "" : "s", why, count);
}

void weir_nccl_tell_served(int ranks, uint32_t types) {
	int version = 0;
	real_ncclGetVersion(&version);
	weir_nccl_say("Weir %s serves sums of%s%s%s in this communicator of %d ranks, NCCL %d of %s the rest.", weir_nccl_weir.version(),
		types >> NCCL_FLOAT32 & 1 ? " float32" : "", types >> NCCL_FLOAT16 & 1 ? " float16" : "", types >> NCCL_BFLOAT16 & 1 ? " bfloat16" : "", ranks, version, weir_nccl_real_path());
}
