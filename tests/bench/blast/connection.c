/* blast: sockets. Connections are opened, read, written and closed here; what the bytes mean is mqtt.c's business. */
#define _GNU_SOURCE
#include "blast.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES 262144

struct conn *conns;
int conn_count, ready_count;

static int epoll_fd, first_slow;
static struct addrinfo *address, *publish_address;
static uint8_t *read_buffer;
static size_t read_capacity;
static double last_allowance;

const char *role_name(const struct conn *c) {
  static const char *names[] = {"publisher", "subscriber", "stalled subscriber", "slow subscriber", "idle connection", "cycler"};
  return names[c->role];
}

static void raise_file_limit(int wanted) {
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < (rlim_t)wanted + 16)
    fail(USAGE, "%d connections need more open files than the limit of %ld allows (ulimit -n)", wanted, (long)limit.rlim_cur);
}

void set_up_connections(void) {
  const int totals[] = {opt.publishers, opt.subscribers, opt.stalled, opt.slow, opt.idle, opt.cyclers};
  for (int role = 0; role <= CYCLER; role++) {
    if (role == SLOW) first_slow = conn_count;
    conn_count += totals[role];
  }
  raise_file_limit(conn_count);
  conns = calloc(conn_count, sizeof *conns);
  struct conn *c = conns;
  for (int role = 0; role <= CYCLER; role++)
    for (int i = 0; i < totals[role]; i++, c++) *c = (struct conn){.fd = -1, .index = i, .role = role};
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
  int error = getaddrinfo(opt.host, opt.port, &hints, &address);
  if (!error) error = getaddrinfo(opt.host, opt.publish_port ? opt.publish_port : opt.port, &hints, &publish_address);
  if (error) fail(USAGE, "%s port %s: %s", opt.host, opt.port, gai_strerror(error));
  epoll_fd = epoll_create1(0);
  read_capacity = READ_BYTES;
  read_buffer = malloc(read_capacity);
  if (opt.tls) set_up_tls();
}

void open_connection(struct conn *c) {
  int on = 1;
  struct addrinfo *to = c->role == PUBLISHER ? publish_address : address;
  c->fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (c->fd < 0) fail(BROKER_FAILED, "%s %d: socket: %s", role_name(c), c->index, strerror(errno));
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if ((c->role == STALLED || c->role == SLOW) && opt.receive_buffer)
    setsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &opt.receive_buffer, sizeof opt.receive_buffer);
  c->opened_at = now_ns();
  if (connect(c->fd, to->ai_addr, to->ai_addrlen) && errno != EINPROGRESS)
    fail(BROKER_FAILED, "%s %d: connect to %s port %s: %s", role_name(c), c->index, opt.host, opt.port, strerror(errno));
  if (opt.tls) begin_tls(c);
  put_connect(c);
  c->want_write = true;
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.ptr = c};
  epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &event);
}

/* Room for so many more bytes at the end of what is to be sent; the caller moves .end on. */
uint8_t *reserve(struct buffer *b, size_t bytes) {
  if (b->start == b->end) b->start = b->end = 0;
  if (b->end + bytes > b->capacity && b->start) {
    memmove(b->bytes, b->bytes + b->start, b->end - b->start);
    b->end -= b->start;
    b->start = 0;
  }
  if (b->end + bytes > b->capacity) {
    if (!b->capacity) b->capacity = 128;
    while (b->end + bytes > b->capacity) b->capacity *= 2;
    b->bytes = realloc(b->bytes, b->capacity);
    if (!b->bytes) fail(BROKER_FAILED, "out of memory with %zu bytes to send", b->capacity);
  }
  return b->bytes + b->end;
}

static void wait_for_writing(struct conn *c, bool wanted) {
  if (wanted == c->want_write) return;
  c->want_write = wanted;
  struct epoll_event event = {.events = EPOLLIN | (wanted ? EPOLLOUT : 0), .data.ptr = c};
  if (!(c->role == SLOW && c->state == READY)) epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &event);
}

void flush(struct conn *c) {
  struct buffer *b = &c->out;
  while (b->start < b->end) {
    ssize_t n = send_some(c, b->bytes + b->start, b->end - b->start);
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) {
      close_connection(c, n ? strerror(errno) : "closed by the broker");
      return;
    }
    b->start += n;
  }
  wait_for_writing(c, b->start < b->end && !c->wait_for_read);
}

/* A measured connection must stay: without it the figures mean nothing. Others may be cut off by the broker, as a
 * policy against slow consumers would; that is counted. */
void close_connection(struct conn *c, const char *why) {
  if (c->state == CLOSED) return;
  if (c->state != READY || c->role == PUBLISHER || c->role == SUBSCRIBER || c->role >= IDLE)
    fail(BROKER_FAILED, "%s %d: %s", role_name(c), c->index, why);
  count.unread_closed++;
  c->state = CLOSED;
  if (c->tls) end_tls(c);
  close(c->fd);
}

void stop_reading(struct conn *c) { epoll_ctl(epoll_fd, EPOLL_CTL_DEL, c->fd, NULL); }

/* Subscribers that do not read do not notice either that the broker has given them up. */
void count_cut_off(void) {
  for (struct conn *c = conns; c < conns + conn_count; c++) {
    struct pollfd p = {.fd = c->fd, .events = POLLRDHUP};
    if (c->role == STALLED && c->state == READY && poll(&p, 1, 0) == 1) count.unread_closed++;
  }
}

static void keep_tail(struct conn *c, const uint8_t *bytes, size_t length) {
  if (length > c->tail_length) c->tail = realloc(c->tail, length);
  memcpy(c->tail, bytes, length);
  c->tail_length = length;
}

/* Reads once, at most `most` bytes, and handles the packets that are complete. */
static ssize_t read_some(struct conn *c, size_t most) {
  if (c->tail_length + most > read_capacity) {
    read_capacity = c->tail_length + most;
    read_buffer = realloc(read_buffer, read_capacity);
  }
  if (c->tail_length) memcpy(read_buffer, c->tail, c->tail_length);
  ssize_t n = receive_some(c, read_buffer + c->tail_length, most);
  if (n < 0 && errno == EAGAIN) {
    if (c->wait_for_read && c->out.start < c->out.end) flush(c); /* the handshake may be over */
    return 0;
  }
  if (n <= 0) {
    close_connection(c, n ? strerror(errno) : "closed by the broker");
    return 0;
  }
  size_t length = c->tail_length + n;
  size_t used = take_packets(c, read_buffer, length, now_ns());
  if (c->state == CLOSED) return n;
  if (length - used || c->tail_length) keep_tail(c, read_buffer + used, length - used);
  if (c->out.start < c->out.end) flush(c);
  return n;
}

/* Slow readers are outside of epoll once they are subscribed: a look every 10 ms, as far as their rate allows. */
static void read_slowly(double now) {
  double passed = now - last_allowance;
  if (passed < 0.01) return;
  last_allowance = now;
  if (passed > 0.1) passed = 0.1;
  for (struct conn *c = conns + first_slow; c < conns + first_slow + opt.slow; c++) {
    if (c->state != READY) continue;
    c->allowance += passed * opt.slow_rate;
    if (c->allowance > opt.slow_rate && c->allowance > 1) c->allowance = opt.slow_rate > 1 ? opt.slow_rate : 1;
    if (c->allowance < 1) continue;
    ssize_t n = read_some(c, c->allowance < READ_BYTES ? (size_t)c->allowance : READ_BYTES);
    c->allowance -= n;
    if (measuring) count.slow_bytes += n;
  }
}

static void on_writable(struct conn *c) {
  flush(c);
  if (c->role == PUBLISHER && c->state == READY) may_have_room(c);
}

/* Waits at most so long for something to happen on a socket, and handles it. */
void step(double timeout_seconds) {
  struct epoll_event events[512];
  if (opt.slow && timeout_seconds > 0.01) timeout_seconds = 0.01;
  if (timeout_seconds > 0) { /* epoll_wait counts in milliseconds, which is too coarse for a rate */
    struct pollfd ready = {.fd = epoll_fd, .events = POLLIN};
    struct timespec timeout = {timeout_seconds, (timeout_seconds - (long)timeout_seconds) * 1e9};
    ppoll(&ready, 1, &timeout, NULL);
  }
  int n = epoll_wait(epoll_fd, events, 512, 0);
  for (int i = 0; i < n; i++) {
    struct conn *c = events[i].data.ptr;
    if (c->state != CLOSED && events[i].events & EPOLLOUT) on_writable(c);
    if (c->state == CLOSED || !(events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))) continue;
    do read_some(c, READ_BYTES);
    while (c->state != CLOSED && more_received(c));
  }
  if (opt.slow) read_slowly(seconds_now());
}
