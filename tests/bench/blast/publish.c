/* blast: when a publisher may send its next message: as its window allows, or at a fixed rate. */
#include "blast.h"

#include <stdlib.h>
#include <string.h>

#define MOST_UNSENT (256 << 10)      /* bytes in our own buffer at which a publisher with a window pauses */
#define MOST_UNSENT_RATE (64 << 20)  /* and at which one with a rate skips a message, which is counted */

uint64_t progress;
unsigned packet_id_mask;

static struct conn **listed;
static int listed_count, next_due;
static uint64_t interval_ns;

void set_up_publishers(void) {
  unsigned slots = 2, most = opt.rate ? opt.awaited : (unsigned)opt.window;
  while (slots < 2 * most && slots < 65536) slots *= 2;
  packet_id_mask = slots - 1;
  listed = calloc(opt.publishers + 1, sizeof *listed);
  for (int i = 0; i < opt.publishers; i++) {
    struct publisher *pub = conns[i].pub = calloc(1, sizeof *pub);
    pub->random = 0x9E3779B97F4A7C15u * (i + 1);
    if (opt.qos) pub->sent_at = calloc(slots, sizeof *pub->sent_at);
  }
}

void start_publishing(void) {
  uint64_t now = now_ns();
  interval_ns = opt.rate ? 1e9 / opt.rate : 0;
  for (int i = 0; i < opt.publishers; i++) {
    conns[i].pub->due = now + interval_ns * i / opt.publishers;
    may_have_room(&conns[i]);
  }
}

/* QoS of the publisher's next message: the mix's, spread evenly. */
static int next_qos(struct publisher *pub) {
  int total = opt.mix[0] + opt.mix[1] + opt.mix[2], best = 0;
  if (!total) return opt.qos;
  for (int qos = 0; qos < 3; qos++) {
    pub->credit[qos] += opt.mix[qos];
    if (pub->credit[qos] > pub->credit[best]) best = qos;
  }
  pub->credit[best] -= total;
  return best;
}

static void publish(struct conn *c, uint64_t at_ns) {
  int qos = next_qos(c->pub);
  put_publish(c, qos, at_ns);
  c->pub->sent++;
  if (qos) c->pub->awaited++;
  if (measuring) count.sent[qos]++;
}

static int64_t awaited(const struct publisher *pub) { return (int64_t)(pub->awaited - pub->acked); }

static bool window_open(const struct conn *c) {
  const struct publisher *pub = c->pub;
  uint64_t fan = deliveries_per_message();
  int64_t most = receive_maximum < opt.window ? receive_maximum : opt.window;
  return pub->sent * fan - pub->arrived < opt.window * fan && awaited(pub) < most && c->out.end - c->out.start < MOST_UNSENT;
}

/* To be called whenever something may have opened a publisher's window. */
void may_have_room(struct conn *c) {
  if (opt.rate || c->pub->listed) return;
  c->pub->listed = true;
  listed[listed_count++] = c;
}

static void publish_at_rate(uint64_t now) {
  int64_t most = receive_maximum < opt.awaited ? receive_maximum : opt.awaited;
  for (;;) {
    struct conn *c = &conns[next_due]; /* all have the same rate: it is their turn in the order of their start */
    if (c->pub->due > now) return;
    if (c->out.end - c->out.start < MOST_UNSENT_RATE && awaited(c->pub) < most) publish(c, opt.tick ? now : c->pub->due);
    else if (measuring) count.skipped++;
    if (!c->want_write) flush(c);
    c->pub->due += interval_ns;
    next_due = (next_due + 1) % opt.publishers;
  }
}

void publish_what_may_go(void) {
  uint64_t now = now_ns();
  if (opt.rate) {
    publish_at_rate(now);
    return;
  }
  for (int i = 0; i < listed_count; i++) {
    struct conn *c = listed[i];
    c->pub->listed = false;
    while (window_open(c)) publish(c, now);
    if (!c->want_write) flush(c);
  }
  listed_count = 0;
}

double until_next_publish(void) {
  if (!opt.rate) return 0.02;
  if (opt.tick) return opt.tick;
  uint64_t now = now_ns(), due = conns[next_due].pub->due;
  double wait = due > now ? (due - now) * 1e-9 : 0;
  return wait < 0.02 ? wait : 0.02;
}

/* What has not come for seconds will not come: counts it as lost and opens the windows again. */
void write_off_outstanding(void) {
  for (int i = 0; i < opt.publishers; i++) {
    struct publisher *pub = conns[i].pub;
    uint64_t expected = pub->sent * deliveries_per_message();
    count.lost += expected - pub->arrived;
    pub->arrived = expected;
    pub->acked = pub->awaited;
    for (int qos = 0; qos < 3; qos++)
      for (int s = 0; s < (opt.mode == PAIR ? 1 : opt.subscribers); s++) *last_sequence(s, i, qos) = *next_sequence(&conns[i], s, qos);
    may_have_room(&conns[i]);
  }
}
