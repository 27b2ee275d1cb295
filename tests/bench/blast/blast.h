/* blast: what its files share. What the program does and how it is used stands in main.c. */
#ifndef BLAST_H
#define BLAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum mode { PAIR, FANOUT, FANIN, TOPICS, WILD, CONNECT };
enum role { PUBLISHER, SUBSCRIBER, STALLED, SLOW, IDLE, CYCLER };
enum cycle { CYCLE_CONNECT, CYCLE_SUBSCRIBE, CYCLE_RETAINED };
enum state { OPENING, GREETED, READY, CLOSED };
enum exit_code { USAGE = 2, BROKER_FAILED = 3, OUT_OF_TIME = 4 };

#define MAX_PIDS 64
#define WILD_LEVELS 10
#define MOST_WILD ((1 << WILD_LEVELS) - 1) /* filters with "+" in another set of levels each */
#define STAMP_BYTES 16 /* at the head of each payload: sent at (ns, 8), run and publisher (4), sequence number (4) */

struct options {
  const char *host, *port, *publish_port, *prefix, *users;
  enum mode mode;
  enum cycle cycle;
  int version, qos, subscription_qos, slow_qos, mix[3], publishers, subscribers, stalled, slow, idle, burst, size, window, awaited, receive_buffer,
      kept, topics, tls, cyclers, retained, properties, aliases, perf, cells, publisher_cell, subscriber_cell;
  double rate, tick, slow_rate, cycle_rate, seconds, warmup, setup_limit;
  int pids[MAX_PIDS], pid_count;
};

struct buffer {
  uint8_t *bytes;
  size_t start, end, capacity;
};

struct publisher {
  uint64_t sent, arrived;   /* messages sent; deliveries that arrived or are known to be lost */
  uint64_t awaited, acked;  /* messages sent with QoS 1 or 2; those acknowledged */
  uint32_t sequence[3];     /* last sequence number used, by QoS */
  uint64_t random;          /* mode topics: state of the generator that draws the next topic */
  uint16_t packet_id;
  uint64_t *sent_at;        /* ns by packet id (its low bits), for the time to the acknowledgement */
  int credit[3];            /* whose turn it is in a mix of QoS */
  uint64_t due;             /* with a rate: when the next message is to be sent, ns */
  bool listed;              /* stands in the list of publishers that may have room */
  bool aliased;             /* the broker knows its topic by an alias */
};

struct conn {
  int fd, index;
  enum role role;
  enum state state;
  bool want_write;
  uint64_t opened_at;
  struct buffer out;
  uint8_t *tail;            /* an incomplete packet, kept until the rest of it comes */
  size_t tail_length;
  struct publisher *pub;
  double allowance;         /* slow readers: bytes that may be read now */
  int subscribed, confirmed; /* topics asked for, and granted, of those that it subscribes to */
  struct ssl_st *tls;       /* NULL without TLS */
  bool wait_for_read;       /* the handshake: nothing can be sent before something has come */
  bool known;               /* cyclers: was connected once */
  int taken;                /* cyclers: retained messages that this cycle has brought */
  uint64_t began;           /* cyclers: when this cycle did, ns */
};

/* Logarithmic histogram: 64 steps per power of two, so a percentile is off by less than 1.6 %. */
#define BUCKETS (64 * 40)
struct histogram {
  uint64_t count, counts[BUCKETS];
};

struct counters {
  uint64_t sent[3], received[3], acked[3], refused, lost, out_of_order, skipped, foreign;
  uint64_t slow_received, slow_bytes, unread_closed, cycles;
  struct histogram latency[3], to_ack[3], connect, cycle;
};

extern struct options opt;
extern struct conn *conns;
extern int conn_count, ready_count;
extern struct counters count;
extern bool measuring;
extern uint64_t progress; /* grows with every arrival and acknowledgement */
extern int receive_maximum, alias_maximum;

/* options.c */
void parse_options(int argc, char **argv);
void fail(enum exit_code code, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));

/* measure.c */
uint64_t now_ns(void);
double seconds_now(void);
double broker_cpu_seconds(void);
long broker_rss_kb(void);
double own_cpu_seconds(void);
void record(struct histogram *h, uint64_t ns);
double percentile_us(const struct histogram *h, double share);
void merge(struct histogram *into, const struct histogram *from);

/* connection.c */
void set_up_connections(void);
void open_connection(struct conn *c);
uint8_t *reserve(struct buffer *b, size_t bytes);
void flush(struct conn *c);
void close_connection(struct conn *c, const char *why);
void stop_reading(struct conn *c);
void count_cut_off(void);
void step(double timeout_seconds);
const char *role_name(const struct conn *c);

/* tls.c */
void set_up_tls(void);
void begin_tls(struct conn *c);
void end_tls(struct conn *c);
ssize_t send_some(struct conn *c, const void *bytes, size_t length);
ssize_t receive_some(struct conn *c, void *bytes, size_t most);
bool more_received(const struct conn *c);

/* mqtt.c */
void put_connect(struct conn *c);
void put_disconnect(struct conn *c);
void put_subscribe(struct conn *c);
void put_unsubscribe(struct conn *c);
void put_retained(struct conn *c, int number);
void put_publish(struct conn *c, int qos, uint64_t at_ns);
size_t take_packets(struct conn *c, uint8_t *bytes, size_t length, uint64_t at_ns);
uint32_t *next_sequence(struct conn *c, int subscriber, int qos);
uint32_t *last_sequence(int subscriber, int publisher, int qos);
int deliveries_per_message(void);

/* cycle.c */
void set_up_cyclers(void);
void cycler_connected(struct conn *c, uint64_t at_ns);
void cycler_subscribed(struct conn *c);
void cycler_received(struct conn *c, uint64_t at_ns);
void cycle_ended(struct conn *c, uint64_t at_ns);
void retained_stored(void);
void store_retained(void);
void begin_cycles(void);

/* publish.c */
extern unsigned packet_id_mask;
void set_up_publishers(void);
void start_publishing(void);
void may_have_room(struct conn *c);
void publish_what_may_go(void);
double until_next_publish(void);
void write_off_outstanding(void);

#endif
