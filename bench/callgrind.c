/* Tell callgrind when the measured part begins and ends; without it both do nothing. */
#include <valgrind/callgrind.h>

void begin(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_ZERO_STATS; }

void end(void) { CALLGRIND_STOP_INSTRUMENTATION; }
