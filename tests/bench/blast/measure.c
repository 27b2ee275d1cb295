/* blast: clocks, the broker's CPU time and memory, histograms. */
#define _GNU_SOURCE
#include "blast.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
}

double seconds_now(void) { return now_ns() * 1e-9; }

/* The process's CPU clock: user and system time of all its threads, ended ones too, in nanoseconds. /proc/PID/stat
 * has ticks of 10 ms, and the schedstat files of the threads lose what ended threads used. */
double broker_cpu_seconds(void) {
  double total = 0;
  for (int i = 0; i < opt.pid_count; i++) {
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(opt.pids[i], &clock) || clock_gettime(clock, &t))
      fail(BROKER_FAILED, "process %d of the broker is gone", opt.pids[i]);
    total += t.tv_sec + t.tv_nsec * 1e-9;
  }
  return total;
}

long broker_rss_kb(void) {
  long total = 0;
  for (int i = 0; i < opt.pid_count; i++) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/status", opt.pids[i]);
    FILE *file = fopen(path, "r");
    long kb = 0;
    while (file && fgets(line, sizeof line, file))
      if (sscanf(line, "VmRSS: %ld", &kb) == 1) break;
    if (file) fclose(file);
    total += kb;
  }
  return total;
}

double own_cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Values up to 127 have a bucket each; above, the six bits after the leading one choose it. */
static int bucket_of(uint64_t value) {
  if (value < 128) return value;
  int shift = 63 - __builtin_clzll(value) - 6;
  int bucket = 64 * (shift + 1) + (value >> shift & 63);
  return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static double middle_of(int bucket) {
  if (bucket < 128) return bucket;
  int shift = bucket / 64 - 1;
  return ldexp(64 + bucket % 64 + 0.5, shift);
}

void record(struct histogram *h, uint64_t ns) {
  h->count++;
  h->counts[bucket_of(ns)]++;
}

double percentile_us(const struct histogram *h, double share) {
  uint64_t rank = (uint64_t)(h->count * share), seen = 0;
  for (int i = 0; i < BUCKETS; i++) {
    seen += h->counts[i];
    if (seen > rank || (seen && seen == h->count)) return middle_of(i) / 1000;
  }
  return 0;
}

void merge(struct histogram *into, const struct histogram *from) {
  into->count += from->count;
  for (int i = 0; i < BUCKETS; i++) into->counts[i] += from->counts[i];
}
