/* Times MPI_Allreduce of float32, sum, out of place.
 *
 * usage: mpi BYTES SECONDS
 *
 * Five trials of N back-to-back calls, N such that all take about SECONDS; a trial's figure is its time per call on the
 * slowest rank. Rank 0 prints one JSON line. Results are checked before and after. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIALS = 5, PERIOD = 1019 };

/* Small whole numbers: exact in float32 in any order of addition. */
static float input(int rank, size_t i) { return (float)((i % PERIOD * 7 + (size_t)rank * 13) % 101); }

static long long wrong(const float *got, const float *want, size_t n) {
  long long bad = 0;
  for (size_t i = 0; i < n; i++) bad += got[i] != want[i % PERIOD];
  return bad;
}

static void *buffer(size_t bytes) {
  void *p = NULL;
  if (posix_memalign(&p, 4096, bytes + 4096) != 0) {
    fprintf(stderr, "mpi: no memory for %zu bytes\n", bytes);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return p;
}

static double spent(const float *in, float *out, int n, long calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  for (long i = 0; i < calls; i++) MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  double own = (MPI_Wtime() - start) / (double)calls, slowest;
  MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, world;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world);
  if (argc != 3) {
    if (rank == 0) fprintf(stderr, "usage: mpi BYTES SECONDS\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  size_t bytes = strtoull(argv[1], NULL, 10), n = bytes / sizeof(float);
  double seconds = atof(argv[2]);
  float *in = buffer(bytes), *out = buffer(bytes), want[PERIOD];
  for (size_t i = 0; i < n; i++) in[i] = input(rank, i);
  for (size_t i = 0; i < PERIOD; i++) {
    want[i] = 0;
    for (int r = 0; r < world; r++) want[i] += input(r, i);
  }
  memset(out, 0xff, bytes);
  MPI_Allreduce(in, out, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  long long bad = wrong(out, want, n);

  /* Learn what a call takes, from four times more calls until they take a millisecond. */
  long calls = 1;
  double each = spent(in, out, (int)n, calls);
  while (each * (double)calls < 1e-3 && calls < 4096) {
    calls *= 4;
    each = spent(in, out, (int)n, calls);
  }
  double wanted = seconds / TRIALS / each;
  calls = wanted < 1 ? 1 : wanted > 400000 ? 400000 : (long)wanted;
  double trial[TRIALS];
  for (int t = 0; t < TRIALS; t++) trial[t] = spent(in, out, (int)n, calls);

  memset(out, 0xff, bytes);
  MPI_Allreduce(in, out, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  bad += wrong(out, want, n);
  long long all = 0;
  MPI_Reduce(&bad, &all, 1, MPI_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("{\"bytes\":%zu,\"iterations\":%ld,\"wrong\":%lld,\"trials\":[", bytes, calls * TRIALS, all);
    for (int t = 0; t < TRIALS; t++) printf("%s%.4f", t ? "," : "", trial[t] * 1e6);
    printf("]}\n");
  }
  MPI_Finalize();
  return 0;
}
