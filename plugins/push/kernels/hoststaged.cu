#include "entry.h"
#include "oneshot.h"
#include "twoshot.h"

PUSH_FUNCTIONS(hoststaged_oneshot, oneshot, board)
PUSH_FUNCTIONS(hoststaged_twoshot, twoshot, board)
