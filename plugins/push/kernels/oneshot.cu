#include "entry.h"
#include "oneshot.h"

PUSH_FUNCTIONS(oneshot, oneshot, inbox)
