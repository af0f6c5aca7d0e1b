/* One sweep at a time of heat and of Jacobi with the least traffic: 16 bytes a cell, stored past the caches.

   stencils heat|jacobi2d LINE LINES PLANES ROUNDS: prints the median of CPU seconds of a sweep over PLANES planes. */
#include <immintrin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

typedef double cells __attribute__((vector_size(64), aligned(8)));
#ifdef __AVX512F__
#define STREAM(p, v) _mm512_stream_pd(p, (__m512d)(v))
#else
#define STREAM(p, v) for (int n = 0; n < 8; n++) _mm_stream_si64((long long *)(p) + n, ((__v8di)(v))[n])
#endif
#define AT(p) (*(const cells *)(p))

static long line, plane;
static const double w[4] = {.1, .15, .15, .15};

static inline cells heat(const double *u) {
    return w[0] * AT(u) + w[1] * (AT(u - 1) + AT(u + 1)) + w[2] * (AT(u - line) + AT(u + line))
        + w[3] * (AT(u - plane) + AT(u + plane));
}

static inline cells jacobi(const double *u) {
    return .25 * ((AT(u - 1) + AT(u + 1)) + (AT(u - plane) + AT(u + plane)));
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

int main(int count, char **words) {
    int is_heat = count == 6 && !strcmp(words[1], "heat"), rounds = atoi(words[5]);
    long nx = atol(words[2]), ny = atol(words[3]), nz = atol(words[4]), block = 32;
    line = (nx + 9) / 8 * 8, plane = line * (is_heat ? ny + 2 : 1);
    size_t bytes = (size_t)plane * (nz + 2) * 8 + 4096;
    double *fields[2], seconds[rounds];
    for (int f = 0; f < 2; f++) {
        void *memory = aligned_alloc(1 << 21, (bytes + (1 << 21) - 1) >> 21 << 21);
        madvise(memory, bytes, MADV_HUGEPAGE);
        memset(memory, 0, bytes);
        fields[f] = (double *)memory + 7;
    }
    for (int r = 0; r < rounds; r++) {
        const double *u = fields[r % 2];
        double *out = fields[1 - r % 2], start = now();
        for (long j0 = is_heat; j0 < ny + is_heat; j0 += block)
            for (long k = 1; k <= nz; k += 2)
                for (long j = j0; j < j0 + block && j < ny + is_heat; j++)
                    for (long i = k * plane + j * line + 1, end = i + nx; i < end; i += 8) {
                        cells new = is_heat ? heat(u + i) : jacobi(u + i);
                        cells up = is_heat ? heat(u + i + plane) : jacobi(u + i + plane);
                        STREAM(out + i, new);
                        STREAM(out + i + plane, up);
                    }
        seconds[r] = now() - start;
    }
    qsort(seconds, rounds, sizeof *seconds, ascending);
    printf("%.6e\n", seconds[rounds / 2]);
    return 0;
}
