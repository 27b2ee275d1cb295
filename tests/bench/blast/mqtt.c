/* blast: the few MQTT packets that a load needs, 3.1.1 and 5.0. */
#include "blast.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum packet { CONNACK = 2, PUBLISH = 3, PUBACK = 4, PUBREC = 5, PUBREL = 6, PUBCOMP = 7, SUBACK = 9, UNSUBACK = 11, PINGRESP = 13, DISCONNECT = 14 };

#define TOGETHER 500 /* filters in one SUBSCRIBE */

int receive_maximum = 65535, alias_maximum;
static uint32_t *last_sequences;
/* With --properties: content type, response topic, correlation data, user property. */
static const char properties[] =
    "\x03\0\x18" "application/octet-stream" "\x08\0\x08" "reply/to" "\x09\0\x08" "12345678" "\x26\0\x06" "source" "\0\x05" "blast";
static const char filler[] = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

static size_t put_remaining_length(uint8_t *p, size_t length) {
  size_t n = 0;
  do {
    p[n++] = (length & 127) | (length > 127 ? 128 : 0);
    length >>= 7;
  } while (length);
  return n;
}

static size_t put_text(uint8_t *p, const char *text) {
  size_t n = strlen(text);
  p[0] = n >> 8;
  p[1] = n;
  memcpy(p + 2, text, n);
  return 2 + n;
}

static void put_packet(struct conn *c, uint8_t first, const uint8_t *body, size_t length) {
  uint8_t *p = reserve(&c->out, length + 5);
  p[0] = first;
  size_t n = 1 + put_remaining_length(p + 1, length);
  memcpy(p + n, body, length);
  c->out.end += n + length;
}

/* The cell that serves a client id, as broker/cluster/slots.py has it. */
static int home_of(const char *id) {
  uint32_t crc = ~0u;
  for (; *id; id++) {
    crc ^= (uint8_t)*id;
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc % 1024 * opt.cells / 1024 + 1;
}

static void make_client_id(const struct conn *c, char *id, size_t size) {
  int cell = c->role == PUBLISHER ? opt.publisher_cell : c->role == SUBSCRIBER ? opt.subscriber_cell : 0;
  int length = snprintf(id, size, "blast-%d-%c%d", (int)getpid(), "pszwic"[c->role], c->index);
  for (int more = 0; opt.cells && cell && home_of(id) != cell; more++) snprintf(id + length, size - length, "-%d", more);
}

void put_connect(struct conn *c) {
  char id[48];
  uint8_t body[160] = {0, 4, 'M', 'Q', 'T', 'T', opt.version, opt.kept ? 0 : 2 /* clean start */, 0, 0 /* no keep alive */};
  size_t n = 10;
  if (opt.version == 5) {
    body[n++] = (opt.kept ? 5 : 0) + (opt.aliases ? 3 : 0); /* length of the properties */
    if (opt.aliases) {
      body[n++] = 0x22; /* Topic Alias Maximum */
      body[n++] = 0;
      body[n++] = 10;
    }
    if (opt.kept) {
      body[n++] = 0x11; /* Session Expiry Interval */
      for (int shift = 24; shift >= 0; shift -= 8) body[n++] = opt.kept >> shift;
    }
  }
  make_client_id(c, id, sizeof id);
  n += put_text(body + n, id);
  if (opt.users) {
    body[7] |= 0xC0; /* user name, password */
    snprintf(id, sizeof id, "%s%d", opt.users, (int)(c - conns));
    n += put_text(body + n, id);
    n += put_text(body + n, opt.users);
  }
  put_packet(c, 0x10, body, n);
}

void put_disconnect(struct conn *c) { put_packet(c, DISCONNECT << 4, (const uint8_t *)"", 0); }

static int subscription_qos(const struct conn *c) {
  if (c->role == CYCLER) return 0;
  return c->role == SUBSCRIBER ? opt.subscription_qos : opt.slow_qos;
}

static size_t put_filter(uint8_t *p, const struct conn *c, const char *filter) {
  size_t n = put_text(p, filter);
  p[n++] = subscription_qos(c);
  return n;
}

/* Topic `number` has the subscriber `number` modulo their count, which is a level of its own. */
static int print_topic(char *text, size_t size, int number) {
  return snprintf(text, size, "%s/%d/%d", opt.prefix, number % opt.subscribers, number);
}

/* A filter for one topic, with "+" where `wildcards` has a bit; 0: the topic. */
static int print_wild(char *text, size_t size, int wildcards) {
  int n = snprintf(text, size, "%s", opt.prefix);
  for (int level = 0; level < WILD_LEVELS; level++) n += snprintf(text + n, size - n, "/%c", wildcards >> level & 1 ? '+' : 'a' + level);
  return n;
}

static int topics_of(const struct conn *c) {
  if (opt.mode != TOPICS || c->role != SUBSCRIBER) return 1;
  return opt.topics / opt.subscribers + (c->index < opt.topics % opt.subscribers);
}

/* Every other one has a wildcard: what a broker remembers of its subscriptions may not survive a new one of those. */
static void print_cycled(char *text, size_t size, const struct conn *c) {
  if (opt.cycle == CYCLE_RETAINED) snprintf(text, size, "#");
  else snprintf(text, size, "%s/c/%d%s", opt.prefix, c->index, c->index % 2 ? "/#" : "");
}

void put_unsubscribe(struct conn *c) {
  uint8_t body[80] = {0, 2 /* packet id */};
  char filter[64];
  size_t n = 2 + (opt.version == 5);
  print_cycled(filter, sizeof filter, c);
  n += put_text(body + n, filter);
  put_packet(c, 0xA2, body, n);
}

/* Subscribes to the next of its topics, to many with one packet. */
void put_subscribe(struct conn *c) {
  static uint8_t body[TOGETHER * 64];
  char filter[64];
  size_t n = 2;
  body[1] = 1; /* packet id */
  if (opt.version == 5) body[n++] = 0;
  for (int together = 0; together < TOGETHER && c->subscribed < topics_of(c); together++, c->subscribed++) {
    if (c->role == CYCLER) print_cycled(filter, sizeof filter, c);
    else if (c->role != SUBSCRIBER || opt.mode == FANIN) snprintf(filter, sizeof filter, "%s/#", opt.prefix);
    else if (opt.mode == TOPICS) print_topic(filter, sizeof filter, c->index + c->subscribed * opt.subscribers);
    else if (opt.mode == WILD) print_wild(filter, sizeof filter, c->index + 1);
    else snprintf(filter, sizeof filter, "%s/%d", opt.prefix, opt.mode == PAIR ? c->index : 0);
    n += put_filter(body + n, c, filter);
  }
  put_packet(c, 0x82, body, n);
}

/* Tells this run's messages from those that an earlier one has left in the broker: bits above all publisher numbers. */
static uint32_t run_tag(void) {
  static uint32_t tag;
  if (!tag) tag = (uint32_t)getpid() << 20;
  return tag;
}

static uint64_t draw(struct publisher *pub) { /* xorshift64 */
  pub->random ^= pub->random << 13;
  pub->random ^= pub->random >> 7;
  pub->random ^= pub->random << 17;
  return pub->random;
}

/* Returns the length of what stands before the payload in MQTT 5. */
static size_t put_properties(uint8_t *p, bool aliased) {
  size_t n = 1;
  if (aliased) {
    p[n++] = 0x23; /* Topic Alias */
    p[n++] = 0;
    p[n++] = 1;
  }
  if (opt.properties) {
    memcpy(p + n, properties, sizeof properties - 1);
    n += sizeof properties - 1;
  }
  p[0] = n - 1;
  return n;
}

void put_retained(struct conn *c, int number) {
  char topic[64];
  snprintf(topic, sizeof topic, "%s/r/%d", opt.prefix, number);
  size_t head = 2 + strlen(topic) + 2 + (opt.version == 5);
  uint8_t *body = calloc(1, head + opt.size);
  if (!body) fail(BROKER_FAILED, "no memory for a message of %d bytes", opt.size);
  size_t n = put_text(body, topic);
  body[n] = (number % 65535 + 1) >> 8;
  body[n + 1] = number % 65535 + 1;
  put_packet(c, 0x33, body, head + opt.size);
  free(body);
}

void put_publish(struct conn *c, int qos, uint64_t at_ns) {
  struct publisher *pub = c->pub;
  char topic[64];
  int subscriber = 0;
  size_t topic_length;
  if (opt.mode == TOPICS) {
    int number = draw(pub) % opt.topics;
    subscriber = number % opt.subscribers;
    topic_length = print_topic(topic, sizeof topic, number);
  } else if (opt.mode == WILD) topic_length = print_wild(topic, sizeof topic, 0);
  else topic_length = snprintf(topic, sizeof topic, "%s/%d", opt.prefix, opt.mode == FANOUT ? 0 : c->index);
  bool alias = opt.aliases && alias_maximum;
  uint8_t more[128];
  size_t more_length = opt.version == 5 ? put_properties(more, alias) : 0;
  if (alias && pub->aliased) topic_length = 0;
  pub->aliased = alias;
  size_t remaining = 2 + topic_length + (qos ? 2 : 0) + more_length + opt.size;
  uint8_t *p = reserve(&c->out, remaining + 5), *start = p;
  *p++ = 0x30 | qos << 1;
  p += put_remaining_length(p, remaining);
  *p++ = topic_length >> 8;
  *p++ = topic_length;
  memcpy(p, topic, topic_length);
  p += topic_length;
  if (qos) {
    if (!++pub->packet_id) pub->packet_id = 1;
    *p++ = pub->packet_id >> 8;
    *p++ = pub->packet_id;
    pub->sent_at[pub->packet_id & packet_id_mask] = at_ns;
  }
  memcpy(p, more, more_length);
  p += more_length;
  uint32_t publisher = run_tag() | c->index, sequence = ++*next_sequence(c, subscriber, qos);
  memcpy(p, &at_ns, 8);
  memcpy(p + 8, &publisher, 4);
  memcpy(p + 12, &sequence, 4);
  size_t rest = opt.size - STAMP_BYTES;
  if (rest < sizeof filler) memcpy(p + STAMP_BYTES, filler, rest);
  else memset(p + STAMP_BYTES, 'x', rest);
  c->out.end += p + opt.size - start;
}

int deliveries_per_message(void) { return opt.mode == PAIR || opt.mode == TOPICS ? 1 : opt.subscribers; }

static size_t pair_of(int subscriber, int publisher) {
  return opt.mode == PAIR ? (size_t)publisher : (size_t)subscriber * opt.publishers + publisher;
}

/* The last number used for what a subscriber gets: the same for all, unless each message goes to another one. */
uint32_t *next_sequence(struct conn *c, int subscriber, int qos) {
  static uint32_t *numbers;
  if (opt.mode != TOPICS) return &c->pub->sequence[qos];
  if (!numbers && !(numbers = calloc((size_t)opt.publishers * opt.subscribers * 3, sizeof *numbers)))
    fail(BROKER_FAILED, "no memory for sequence numbers");
  return &numbers[pair_of(subscriber, c->index) * 3 + qos];
}

uint32_t *last_sequence(int subscriber, int publisher, int qos) {
  size_t pairs = opt.mode == PAIR ? (size_t)opt.publishers : (size_t)opt.publishers * opt.subscribers;
  if (!last_sequences && !(last_sequences = calloc(pairs * 3, sizeof *last_sequences)))
    fail(BROKER_FAILED, "no memory for the sequence numbers of %zu pairs of publisher and subscriber", pairs);
  return &last_sequences[pair_of(subscriber, publisher) * 3 + qos];
}

/* Counts a measured delivery. A gap in the sequence numbers is a loss, and no longer outstanding. */
static void on_delivery(struct conn *c, int qos, const uint8_t *payload, uint64_t at_ns) {
  uint64_t sent_at;
  uint32_t publisher, sequence;
  memcpy(&sent_at, payload, 8);
  memcpy(&publisher, payload + 8, 4);
  memcpy(&sequence, payload + 12, 4);
  publisher ^= run_tag();
  if (publisher >= (uint32_t)opt.publishers) {
    count.foreign++;
    return;
  }
  struct publisher *pub = conns[publisher].pub;
  uint32_t *last = last_sequence(c->index, publisher, qos);
  if (sequence <= *last) {
    count.out_of_order++;
    return;
  }
  count.lost += sequence - *last - 1;
  pub->arrived += sequence - *last;
  *last = sequence;
  progress++;
  if (measuring) {
    count.received[qos]++;
    record(&count.latency[qos], at_ns - sent_at);
  }
  may_have_room(&conns[publisher]);
}

static void on_publish(struct conn *c, uint8_t first, const uint8_t *body, size_t length, uint64_t at_ns) {
  int qos = first >> 1 & 3;
  size_t n = 2 + (body[0] << 8 | body[1]);
  const uint8_t *packet_id = body + n;
  if (qos) n += 2;
  if (opt.version == 5) {
    size_t properties = 0;
    int shift = 0;
    do properties |= (size_t)(body[n] & 127) << shift, shift += 7;
    while (body[n++] & 128);
    n += properties;
  }
  if (n + STAMP_BYTES > length) count.foreign++;
  else if (c->role == SUBSCRIBER) on_delivery(c, qos, body + n, at_ns);
  else if (c->role == CYCLER) cycler_received(c, at_ns);
  else if (measuring) count.slow_received++;
  uint8_t reply[2] = {qos ? packet_id[0] : 0, qos ? packet_id[1] : 0};
  if (qos) put_packet(c, qos == 1 ? PUBACK << 4 : PUBREC << 4, reply, 2);
}

static void on_acknowledged(struct conn *c, const uint8_t *body, size_t length, int qos, uint64_t at_ns) {
  struct publisher *pub = c->pub;
  if (c->role == CYCLER) {
    if (length > 2 && body[2] >= 0x80) fail(BROKER_FAILED, "a retained message was refused with 0x%02x", body[2]);
    retained_stored();
  }
  if (!pub) return; /* a PUBCOMP to nobody */
  if (length > 2 && body[2] >= 0x80) count.refused++;
  pub->acked++;
  progress++;
  if (measuring) {
    count.acked[qos]++;
    record(&count.to_ack[qos], at_ns - pub->sent_at[(body[0] << 8 | body[1]) & packet_id_mask]);
  }
  may_have_room(c);
}

static void on_connack(struct conn *c, const uint8_t *body, size_t length, uint64_t at_ns) {
  if (body[1]) fail(BROKER_FAILED, "%s %d: the broker refused the connection with code 0x%02x", role_name(c), c->index, body[1]);
  record(&count.connect, at_ns - c->opened_at);
  for (size_t n = 3; opt.version == 5 && n < length;) { /* properties before Receive Maximum are of fixed size */
    uint8_t id = body[n++];
    if (id == 0x21) receive_maximum = body[n] << 8 | body[n + 1], n += 2;
    else if (id == 0x24 && body[n] < opt.qos) fail(BROKER_FAILED, "the broker's Maximum QoS is %d", body[n]);
    else if (id == 0x24 || id == 0x25 || id == 0x28 || id == 0x29 || id == 0x2A) n += 1;
    else if (id == 0x22) alias_maximum = body[n] << 8 | body[n + 1], n += 2;
    else if (id == 0x13) n += 2;
    else if (id == 0x11 || id == 0x27) n += 4;
    else if (id == 0x26) n += 2 + (body[n] << 8 | body[n + 1]), n += 2 + (body[n] << 8 | body[n + 1]);
    else n += 2 + (body[n] << 8 | body[n + 1]);
  }
  if (c->role == CYCLER) {
    cycler_connected(c, at_ns);
    return;
  }
  bool subscribes = c->role == SUBSCRIBER || c->role == STALLED || c->role == SLOW;
  c->state = subscribes ? GREETED : READY;
  if (subscribes) put_subscribe(c);
  else ready_count++;
}

static void on_suback(struct conn *c, const uint8_t *body, size_t length) {
  c->confirmed += length - 2 - (opt.version == 5 ? 1 + body[2] : 0);
  if (c->confirmed < topics_of(c)) {
    put_subscribe(c);
    return;
  }
  if (body[length - 1] != subscription_qos(c))
    fail(BROKER_FAILED, "%s %d: subscription answered with 0x%02x, not QoS %d", role_name(c), c->index, body[length - 1], subscription_qos(c));
  if (c->role == CYCLER) {
    cycler_subscribed(c);
    return;
  }
  c->state = READY;
  ready_count++;
  if (c->role == STALLED || c->role == SLOW) stop_reading(c);
}

static void on_packet(struct conn *c, uint8_t first, const uint8_t *body, size_t length, uint64_t at_ns) {
  switch (first >> 4) {
    case CONNACK: on_connack(c, body, length, at_ns); break;
    case SUBACK: on_suback(c, body, length); break;
    case UNSUBACK: cycle_ended(c, at_ns); break;
    case PUBLISH: on_publish(c, first, body, length, at_ns); break;
    case PUBACK: on_acknowledged(c, body, length, 1, at_ns); break;
    case PUBCOMP: on_acknowledged(c, body, length, 2, at_ns); break;
    case PUBREL: put_packet(c, PUBCOMP << 4, body, 2); break;
    case PUBREC:
      if (length > 2 && body[2] >= 0x80) on_acknowledged(c, body, length, 2, at_ns);
      else put_packet(c, PUBREL << 4 | 2, body, 2);
      break;
    case PINGRESP: break;
    case DISCONNECT: {
      char why[64];
      snprintf(why, sizeof why, "the broker disconnected with reason 0x%02x", length ? body[0] : 0);
      close_connection(c, why);
      break;
    }
    default: fail(BROKER_FAILED, "%s %d: a packet with first byte 0x%02x makes no sense here", role_name(c), c->index, first);
  }
}

/* Handles the complete packets and says how many bytes they were. */
size_t take_packets(struct conn *c, uint8_t *bytes, size_t length, uint64_t at_ns) {
  size_t done = 0;
  while (length - done >= 2 && c->state != CLOSED) {
    size_t remaining = 0, n = 1;
    int shift = 0;
    do {
      if (done + n == length) return done;
      if (n == 5) fail(BROKER_FAILED, "%s %d: a remaining length of more than four bytes", role_name(c), c->index);
      remaining |= (size_t)(bytes[done + n] & 127) << shift;
      shift += 7;
    } while (bytes[done + n++] & 128);
    if (length - done - n < remaining) break;
    if (remaining < 2 && bytes[done] >> 4 < PINGRESP) fail(BROKER_FAILED, "%s %d: a packet without content", role_name(c), c->index);
    on_packet(c, bytes[done], bytes + done + n, remaining, at_ns);
    done += n + remaining;
  }
  return done;
}
