/* blast: an MQTT load generator, one thread, little cost per message. `cc -O2 -o blast *.c -lm`, `blast --help`.
 * With TLS: `cc -O2 -DWITH_TLS -o blast *.c -lm -lssl -lcrypto`.
 *
 *   pair     publisher i -> topic b/i -> subscriber i
 *   fanout   each publisher -> b/0 -> every subscriber
 *   fanin    publisher i -> b/i -> every subscriber, on b/#
 *   topics   each publisher -> one of --topics topics, drawn at random; each has one subscriber
 *   wild     each publisher -> one topic of ten levels -> every subscriber, each by a filter of its own with "+"
 *   connect  no messages: --idle connections, opened --burst at a time, held for --seconds
 *
 * Either each publisher has at most --window messages under way (not yet at all of its subscribers or, with QoS 1 and
 * 2, not acknowledged), so that a broker with bounded queues need not drop; a window of 1 is ping-pong. Or it sends at
 * --rate: each message by itself at its moment or, with --tick, together what has become due. Beside the measured
 * subscribers there can be ones that never read (--stalled), ones that read slowly (--slow), and connections that do
 * nothing (--idle), or that do one thing again and again (--cyclers): connect, subscribe, take what is retained.
 *
 * Prints one JSON line. cpu_us_per_delivery is the CPU time of the broker's processes over the measured deliveries: on
 * a shared machine it drifts far less than a rate does. Latencies are from the moment a message was written (with
 * --rate and no --tick: was due) to the read that brought it. Each subscriber checks the sequence numbers, which is
 * where lost and out_of_order come from.
 * Ends with 0, 2 (usage), 3 (the broker refused, closed or is gone), 4 (out of time).
 */
#include "blast.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define GIVEN_UP_AFTER 2.0 /* seconds without any arrival */

struct counters count;
bool measuring;

struct result {
  double setup, elapsed, cpu_setup, cpu, own_cpu;
  long rss_before, rss_ready, rss_after;
};

static void out_of_time(int signal) {
  (void)signal;
  static const char text[] = "blast: out of time\n";
  ssize_t ignored = write(2, text, sizeof text - 1);
  (void)ignored;
  _exit(OUT_OF_TIME);
}

static void connect_all(void) {
  double end = seconds_now() + opt.setup_limit;
  int opened = 0;
  while (ready_count < conn_count) {
    while (opened < conn_count && opened - ready_count < opt.burst) open_connection(&conns[opened++]);
    step(0.01);
    if (seconds_now() > end)
      fail(BROKER_FAILED, "after %g s only %d of %d connections are ready", opt.setup_limit, ready_count, conn_count);
  }
}

static void run_for(double seconds) {
  double now = seconds_now(), end = now + seconds, last = now;
  uint64_t seen = progress;
  while (now < end) {
    double wait = opt.publishers ? until_next_publish() : 0.02;
    if (opt.cycle_rate && wait > 0.001) wait = 0.001;
    if (opt.cyclers) begin_cycles();
    step(wait < end - now ? wait : end - now);
    if (opt.publishers) publish_what_may_go();
    now = seconds_now();
    if (progress != seen || opt.rate) {
      seen = progress;
      last = now;
    } else if (now - last > GIVEN_UP_AFTER) {
      if (opt.publishers) write_off_outstanding();
      else if (opt.cyclers) fail(BROKER_FAILED, "no cycler was answered for %g s", GIVEN_UP_AFTER);
      last = now;
    }
  }
}

/* The answer makes sure that no message is measured without being counted there. */
static void tell_perf(const char *what) {
  char answer[8];
  if (opt.perf < 0) return;
  if (write(opt.perf, what, strlen(what)) < 0 || read(opt.perf, answer, sizeof answer) < 3)
    fail(USAGE, "descriptor %d does not answer as perf does", opt.perf);
}

static struct result measure(void) {
  struct result r = {.rss_before = broker_rss_kb(), .cpu_setup = -broker_cpu_seconds()};
  double start = seconds_now();
  connect_all();
  r.setup = seconds_now() - start;
  r.cpu_setup += broker_cpu_seconds();
  r.rss_ready = broker_rss_kb();
  if (opt.cyclers && opt.cycle == CYCLE_RETAINED) store_retained();
  start_publishing();
  run_for(opt.warmup);
  tell_perf("enable\n");
  measuring = true;
  r.cpu = -broker_cpu_seconds();
  r.own_cpu = -own_cpu_seconds();
  start = seconds_now();
  run_for(opt.seconds);
  r.elapsed = seconds_now() - start;
  r.cpu += broker_cpu_seconds();
  r.own_cpu += own_cpu_seconds();
  measuring = false;
  tell_perf("disable\n");
  r.rss_after = broker_rss_kb();
  count_cut_off();
  return r;
}

static double total(const uint64_t *by_qos) { return (double)(by_qos[0] + by_qos[1] + by_qos[2]); }

static void print_three(const char *name, const uint64_t *by_qos) {
  printf("\"%s\":[%llu,%llu,%llu],", name, (unsigned long long)by_qos[0], (unsigned long long)by_qos[1], (unsigned long long)by_qos[2]);
}

static void print_latency(const char *name, const struct histogram *h) {
  printf("\"%s\":{\"count\":%llu,\"p50_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,\"max_us\":%.1f},", name,
         (unsigned long long)h->count, percentile_us(h, .5), percentile_us(h, .99), percentile_us(h, .999), percentile_us(h, 1));
}

static void print_latencies(void) {
  static struct histogram all;
  static const char *names[2][3] = {{"latency_qos0", "latency_qos1", "latency_qos2"}, {"", "ack_qos1", "ack_qos2"}};
  for (int qos = 0; qos < 3; qos++) merge(&all, &count.latency[qos]);
  print_latency("latency", &all);
  for (int qos = 0; qos < 3; qos++) {
    if (count.latency[qos].count) print_latency(names[0][qos], &count.latency[qos]);
    if (qos && count.to_ack[qos].count) print_latency(names[1][qos], &count.to_ack[qos]);
  }
  print_latency("connect", &count.connect);
  print_latency("cycle", &count.cycle);
}

static void print_result(const struct result *r) {
  static const char *modes[] = {"pair", "fanout", "fanin", "topics", "wild", "connect"};
  double received = total(count.received);
  printf("{\"mode\":\"%s\",\"version\":%d,\"publishers\":%d,\"subscribers\":%d,\"stalled\":%d,\"slow\":%d,\"idle\":%d,",
         modes[opt.mode], opt.version, opt.publishers, opt.subscribers, opt.stalled, opt.slow, opt.idle);
  printf("\"qos\":%d,\"size\":%d,\"window\":%d,\"rate\":%g,\"seconds\":%.3f,", opt.qos, opt.size, opt.rate ? 0 : opt.window,
         opt.rate, r->elapsed);
  print_three("sent", count.sent);
  print_three("received", count.received);
  print_three("acked", count.acked);
  printf("\"received_per_s\":%.1f,\"sent_per_s\":%.1f,", received / r->elapsed, total(count.sent) / r->elapsed);
  print_latencies();
  printf("\"lost\":%llu,\"out_of_order\":%llu,\"refused\":%llu,\"skipped\":%llu,\"foreign\":%llu,",
         (unsigned long long)count.lost, (unsigned long long)count.out_of_order, (unsigned long long)count.refused,
         (unsigned long long)count.skipped, (unsigned long long)count.foreign);
  printf("\"slow_received\":%llu,\"slow_bytes\":%llu,\"cut_off\":%llu,", (unsigned long long)count.slow_received,
         (unsigned long long)count.slow_bytes, (unsigned long long)count.unread_closed);
  printf("\"cycles\":%llu,\"cycles_per_s\":%.1f,\"cpu_us_per_cycle\":%.4f,", (unsigned long long)count.cycles,
         count.cycles / r->elapsed, count.cycles ? r->cpu * 1e6 / count.cycles : 0);
  printf("\"broker_cpu\":%.4f,\"cpu_us_per_delivery\":%.4f,\"generator_cpu\":%.4f,", r->cpu / r->elapsed,
         received ? r->cpu * 1e6 / received : 0, r->own_cpu / r->elapsed);
  printf("\"setup_s\":%.4f,\"cpu_us_per_connection\":%.2f,\"kb_per_connection\":%.3f,", r->setup,
         r->cpu_setup * 1e6 / conn_count, (double)(r->rss_ready - r->rss_before) / conn_count);
  printf("\"rss_before_kb\":%ld,\"rss_ready_kb\":%ld,\"rss_after_kb\":%ld}\n", r->rss_before, r->rss_ready, r->rss_after);
}

int main(int argc, char **argv) {
  parse_options(argc, argv);
  signal(SIGALRM, out_of_time);
  alarm((unsigned)(opt.setup_limit + opt.warmup + opt.seconds) + 15);
  set_up_connections();
  set_up_publishers();
  set_up_cyclers();
  struct result r = measure();
  print_result(&r);
  return 0;
}
