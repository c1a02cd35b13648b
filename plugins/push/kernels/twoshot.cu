#include "entry.h"
#include "twoshot.h"

PUSH_FUNCTIONS(twoshot, twoshot, inbox)
