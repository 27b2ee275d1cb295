/* blast: command line, and the one way to give up. */
#include "blast.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options opt = {
    .host = "127.0.0.1", .port = "1883", .prefix = "b", .mode = PAIR, .version = 4, .publishers = 1, .subscribers = 1,
    .burst = 64, .retained = 1000, .perf = -1, .size = 64, .window = 200, .awaited = 4096, .topics = 1000, .subscription_qos = -1, .slow_qos = -1,
    .slow_rate = 1000, .seconds = 5, .warmup = 1, .setup_limit = 60,
};

static const char *usage =
    "usage: blast [--option value]...\n"
    "  --host ADDRESS --port N        the broker (127.0.0.1, 1883)\n"
    "  --publish-port N               another broker's, for publishers: a bridge brings their messages (as --port)\n"
    "  --version 4|5                  MQTT 3.1.1 or 5.0 (4)\n"
    "  --mode pair|fanout|fanin|topics|wild|connect\n"
    "  --topics N                     mode topics: subscribed topics, each by one subscriber (1000)\n"
    "  --publishers N --subscribers N measured clients (1, 1; pair: as many subscribers as publishers)\n"
    "  --qos 0|1|2                    of messages and subscriptions (0)\n"
    "  --subscription-qos 0|1|2       of subscriptions, if not that of messages\n"
    "  --mix A:B:C                    weights of QoS 0, 1 and 2 among the messages; subscriptions are at QoS 2\n"
    "  --size BYTES                   of the payload, 16 or more (64)\n"
    "  --window N                     messages a publisher may have under way (200)\n"
    "  --rate N                       messages a second and publisher, instead of as fast as the window allows\n"
    "  --awaited N                    with a rate: QoS 1 and 2 messages a publisher may have unacknowledged (4096)\n"
    "  --tick T                       with a rate: look at the clock only so often, not for each message (0)\n"
    "  --seconds T --warmup T         measured and unmeasured time (5, 1)\n"
    "  --stalled N                    more subscribers of everything that never read\n"
    "  --slow N --slow-rate BYTES     more subscribers of everything that read so many bytes a second (1000)\n"
    "  --slow-qos 0|1|2               of stalled and slow subscriptions, if not that of the others\n"
    "  --receive-buffer BYTES         SO_RCVBUF of stalled and slow subscribers (the system's)\n"
    "  --idle N                       connections that do nothing; mode connect has only these\n"
    "  --burst N                      connections being opened at the same time (64)\n"
    "  --setup-limit T                seconds for all connections to be ready (60)\n"
    "  --kept SECONDS                 sessions outlive their connection so long; 3.1.1 has no number for it (0: they do not)\n"
    "  --cyclers N                    clients that do one thing again and again, beside the others or alone in mode connect\n"
    "  --cycle connect|subscribe|retained  what: connect and disconnect, subscribe and unsubscribe, take all retained\n"
    "                                 messages by a new subscription to # (connect)\n"
    "  --cycle-rate N                 how often a second, all of them together (0: as fast as they are answered)\n"
    "  --retained N                   cycle retained: messages that are stored before (1000)\n"
    "  --properties 0|1               MQTT 5: messages have a content type and three more properties (0)\n"
    "  --aliases 0|1                  MQTT 5: topic aliases in both directions, as far as the broker has them (0)\n"
    "  --perf FD                      gets \"enable\" and \"disable\" when measuring begins and ends, and acknowledges it,\n"
    "                                 as `perf stat --control` does\n"
    "  --tls 0|1                      over TLS, without verifying the broker's certificate (0)\n"
    "  --cells N                      of a Sluice with so many workers:\n"
    "  --publisher-cell N --subscriber-cell N  the clients have ids that this cell serves, from 1 on (any)\n"
    "  --prefix TEXT                  first level of the topics (b)\n"
    "  --users TEXT                   clients log in, each with TEXT and its number as user name and TEXT as password (they do not)\n"
    "  --pid N[,N...]                 the broker's processes: measures their CPU time and memory\n";

void fail(enum exit_code code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("blast: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  exit(code);
}

static double number(const char *name, const char *text, double lowest, double highest) {
  char *end;
  double value = strtod(text, &end);
  if (end == text || *end || value < lowest || value > highest)
    fail(USAGE, "%s is to be a number from %g to %g, not \"%s\"", name, lowest, highest, text);
  return value;
}

static enum mode mode_named(const char *text) {
  static const char *names[] = {"pair", "fanout", "fanin", "topics", "wild", "connect"};
  for (int i = 0; i < 6; i++)
    if (!strcmp(text, names[i])) return i;
  fail(USAGE, "--mode is to be pair, fanout, fanin, topics, wild or connect, not \"%s\"", text);
}

static enum cycle cycle_named(const char *text) {
  static const char *names[] = {"connect", "subscribe", "retained"};
  for (int i = 0; i < 3; i++)
    if (!strcmp(text, names[i])) return i;
  fail(USAGE, "--cycle is to be connect, subscribe or retained, not \"%s\"", text);
}

static void parse_mix(const char *text) {
  char rest;
  int *m = opt.mix;
  if (sscanf(text, "%d:%d:%d%c", &m[0], &m[1], &m[2], &rest) != 3 || m[0] < 0 || m[1] < 0 || m[2] < 0 || !(m[0] + m[1] + m[2]))
    fail(USAGE, "--mix is to be three weights such as 8:1:1, not \"%s\"", text);
}

static void parse_pids(const char *text) {
  for (const char *at = text; *at;) {
    char *end;
    long pid = strtol(at, &end, 10);
    if (end == at || pid < 1 || opt.pid_count == MAX_PIDS) fail(USAGE, "--pid is to be process ids, not \"%s\"", text);
    opt.pids[opt.pid_count++] = pid;
    at = *end == ',' ? end + 1 : end;
  }
}

struct number_option {
  const char *name;
  int *whole;
  double *real;
  double lowest, highest;
};

static const struct number_option numbers[] = {
    {"--version", &opt.version, NULL, 4, 5},
    {"--publishers", &opt.publishers, NULL, 0, 1e6},
    {"--subscribers", &opt.subscribers, NULL, 0, 1e6},
    {"--topics", &opt.topics, NULL, 1, 1e8},
    {"--qos", &opt.qos, NULL, 0, 2},
    {"--subscription-qos", &opt.subscription_qos, NULL, 0, 2},
    {"--slow-qos", &opt.slow_qos, NULL, 0, 2},
    {"--size", &opt.size, NULL, STAMP_BYTES, 268000000},
    {"--window", &opt.window, NULL, 1, 1e9},
    {"--awaited", &opt.awaited, NULL, 1, 65535},
    {"--rate", NULL, &opt.rate, 0, 1e9},
    {"--tick", NULL, &opt.tick, 0, 1},
    {"--seconds", NULL, &opt.seconds, 0, 1e6},
    {"--warmup", NULL, &opt.warmup, 0, 1e6},
    {"--stalled", &opt.stalled, NULL, 0, 1e6},
    {"--slow", &opt.slow, NULL, 0, 1e6},
    {"--slow-rate", NULL, &opt.slow_rate, 1, 1e12},
    {"--receive-buffer", &opt.receive_buffer, NULL, 0, 1e9},
    {"--idle", &opt.idle, NULL, 0, 1e6},
    {"--kept", &opt.kept, NULL, 0, 1e9},
    {"--tls", &opt.tls, NULL, 0, 1},
    {"--cyclers", &opt.cyclers, NULL, 0, 1e6},
    {"--cycle-rate", NULL, &opt.cycle_rate, 0, 1e9},
    {"--retained", &opt.retained, NULL, 1, 1e7},
    {"--properties", &opt.properties, NULL, 0, 1},
    {"--aliases", &opt.aliases, NULL, 0, 1},
    {"--perf", &opt.perf, NULL, 0, 1e6},
    {"--burst", &opt.burst, NULL, 1, 1e6},
    {"--cells", &opt.cells, NULL, 0, 1024},
    {"--publisher-cell", &opt.publisher_cell, NULL, 0, 1024},
    {"--subscriber-cell", &opt.subscriber_cell, NULL, 0, 1024},
    {"--setup-limit", NULL, &opt.setup_limit, 1, 1e6},
};

static bool parse_number(const char *name, const char *value) {
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    const struct number_option *o = &numbers[i];
    if (strcmp(name, o->name)) continue;
    double parsed = number(name, value, o->lowest, o->highest);
    if (o->whole) *o->whole = parsed;
    else *o->real = parsed;
    return true;
  }
  return false;
}

void parse_options(int argc, char **argv) {
  for (int i = 1; i < argc; i += 2) {
    const char *name = argv[i], *value = argv[i + 1];
    if (!strcmp(name, "--help")) {
      fputs(usage, stdout);
      exit(0);
    }
    if (i + 1 == argc) fail(USAGE, "%s has no value; --help lists the options", name);
    if (!strcmp(name, "--host")) opt.host = value;
    else if (!strcmp(name, "--port")) opt.port = value;
    else if (!strcmp(name, "--publish-port")) opt.publish_port = value;
    else if (!strcmp(name, "--prefix")) opt.prefix = value;
    else if (!strcmp(name, "--users")) opt.users = value;
    else if (!strcmp(name, "--mode")) opt.mode = mode_named(value);
    else if (!strcmp(name, "--cycle")) opt.cycle = cycle_named(value);
    else if (!strcmp(name, "--mix")) parse_mix(value);
    else if (!strcmp(name, "--pid")) parse_pids(value);
    else if (!parse_number(name, value)) fail(USAGE, "there is no option %s; --help lists them", name);
  }
  if (strlen(opt.prefix) > 32) fail(USAGE, "--prefix is to be at most 32 bytes");
  if (opt.users && strlen(opt.users) > 16) fail(USAGE, "--users is to be at most 16 bytes");
  if (opt.publisher_cell > opt.cells || opt.subscriber_cell > opt.cells)
    fail(USAGE, "--publisher-cell and --subscriber-cell are to be at most --cells");
  if (opt.mix[0] + opt.mix[1] + opt.mix[2]) opt.qos = 2;
  if (opt.subscription_qos < 0) opt.subscription_qos = opt.qos;
  if (opt.slow_qos < 0) opt.slow_qos = opt.subscription_qos;
  if (opt.mode == WILD && opt.subscribers > MOST_WILD) fail(USAGE, "mode wild has at most %d subscribers", MOST_WILD);
  if (opt.version != 5 && (opt.properties || opt.aliases)) fail(USAGE, "--properties and --aliases need --version 5");
  if (opt.aliases && opt.mode == TOPICS) fail(USAGE, "mode topics has more topics than aliases");
  if (opt.cyclers && opt.cycle == CYCLE_RETAINED && opt.mode != CONNECT)
    fail(USAGE, "--cycle retained needs --mode connect: other messages would be taken for retained ones");
  if (opt.mode == PAIR) opt.subscribers = opt.publishers;
  if (opt.mode == CONNECT) opt.publishers = opt.subscribers = opt.stalled = opt.slow = 0;
  if (opt.mode != CONNECT && (!opt.publishers || !opt.subscribers)) fail(USAGE, "a load needs a publisher and a subscriber");
}
