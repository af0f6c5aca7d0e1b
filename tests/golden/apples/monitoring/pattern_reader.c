
#include "monitor.h"
#include <inttypes.h>
#include <stdio.h>

int main(void) {
    uint32_t symbol, period = 0;
    uint64_t iterations = 0;
    while (scanf("%" SCNu32, &symbol) == 1)
        iterations = monitor_pattern(symbol, &period);
    printf("%" PRIu64 " %" PRIu32, iterations, period);
    return 0;
}
