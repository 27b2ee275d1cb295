/* blast: clients that do one thing again and again, each time as soon as the last one was answered or at a rate. */
#include "blast.h"

#include <stdlib.h>
#include <unistd.h>

static struct conn **resting; /* a ring, in the order in which they have finished */
static int first_resting, resting_count, stored;
static uint64_t due;

void set_up_cyclers(void) { resting = calloc(opt.cyclers + 1, sizeof *resting); }

static void rest(struct conn *c) { resting[(first_resting + resting_count++) % opt.cyclers] = c; }

static void leave(struct conn *c) {
  put_disconnect(c);
  flush(c);
  if (c->tls) end_tls(c);
  close(c->fd);
  c->state = CLOSED;
}

/* At the first CONNACK it is one of the connections that are set up; later ones end a cycle. */
void cycler_connected(struct conn *c, uint64_t at_ns) {
  c->state = READY;
  if (opt.cycle == CYCLE_CONNECT) leave(c);
  if (c->known) {
    cycle_ended(c, at_ns);
    return;
  }
  c->known = true;
  ready_count++;
  rest(c);
}

/* What it subscribed to is there, and with it the retained messages. */
void cycler_subscribed(struct conn *c) {
  c->confirmed = 1;
  if (opt.cycle == CYCLE_SUBSCRIBE || c->taken == opt.retained) put_unsubscribe(c);
}

void cycler_received(struct conn *c, uint64_t at_ns) {
  progress++;
  if (measuring) {
    count.received[0]++;
    record(&count.latency[0], at_ns - c->began);
  }
  if (++c->taken == opt.retained && c->confirmed) put_unsubscribe(c);
}

void retained_stored(void) { stored++; }

void cycle_ended(struct conn *c, uint64_t at_ns) {
  progress++;
  if (measuring) {
    count.cycles++;
    record(&count.cycle, at_ns - c->began);
  }
  rest(c);
}

static void begin(struct conn *c, uint64_t now) {
  c->began = now;
  if (opt.cycle == CYCLE_CONNECT) {
    c->state = OPENING;
    c->wait_for_read = false;
    c->tail_length = c->out.start = c->out.end = 0;
    open_connection(c);
    return;
  }
  c->taken = c->subscribed = c->confirmed = 0;
  put_subscribe(c);
  if (!c->want_write) flush(c);
}

void begin_cycles(void) {
  uint64_t now = now_ns();
  if (!due) due = now;
  while (resting_count && (!opt.cycle_rate || due <= now)) {
    struct conn *c = resting[first_resting];
    first_resting = (first_resting + 1) % opt.cyclers;
    resting_count--;
    if (opt.cycle_rate) due += 1e9 / opt.cycle_rate;
    begin(c, now);
  }
}

/* Before the cycles: the first cycler publishes what all of them will get. */
void store_retained(void) {
  double end = seconds_now() + opt.setup_limit;
  struct conn *c = &conns[conn_count - opt.cyclers];
  int sent = 0, most = receive_maximum < 100 ? receive_maximum : 100;
  while (stored < opt.retained) {
    while (sent < opt.retained && sent - stored < most) put_retained(c, sent++);
    if (!c->want_write) flush(c);
    step(0.01);
    if (seconds_now() > end)
      fail(BROKER_FAILED, "after %g s only %d of %d retained messages are stored", opt.setup_limit, stored, opt.retained);
  }
}
