/* blast: bytes over TLS, or over the bare socket. Without -DWITH_TLS it needs no OpenSSL.
 *
 * Certificates are not verified, and no session is resumed: each connection is a full handshake. */
#define _GNU_SOURCE
#include "blast.h"

#include <errno.h>
#include <sys/socket.h>

#ifdef WITH_TLS

#include <openssl/err.h>
#include <openssl/ssl.h>

static SSL_CTX *context;

void set_up_tls(void) {
  context = SSL_CTX_new(TLS_client_method());
  if (!context) fail(BROKER_FAILED, "OpenSSL cannot be used");
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
}

void begin_tls(struct conn *c) {
  c->tls = SSL_new(context);
  if (!c->tls || !SSL_set_fd(c->tls, c->fd)) fail(BROKER_FAILED, "%s %d: OpenSSL: out of memory", role_name(c), c->index);
  SSL_set_connect_state(c->tls);
}

void end_tls(struct conn *c) {
  SSL_free(c->tls);
  c->tls = NULL;
}

/* As recv and send: bytes, 0 at the end, -1 with errno. */
static ssize_t result_of(struct conn *c, int n) {
  int error = SSL_get_error(c->tls, n);
  c->wait_for_read = error == SSL_ERROR_WANT_READ;
  if (error == SSL_ERROR_ZERO_RETURN) return 0;
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) errno = EAGAIN;
  else if (error != SSL_ERROR_SYSCALL) errno = EPROTO;
  else if (!errno) return 0;
  return -1;
}

ssize_t send_some(struct conn *c, const void *bytes, size_t length) {
  if (!c->tls) return send(c->fd, bytes, length, MSG_NOSIGNAL);
  ERR_clear_error();
  errno = 0;
  int n = SSL_write(c->tls, bytes, length);
  if (n <= 0) return result_of(c, n);
  c->wait_for_read = false;
  return n;
}

ssize_t receive_some(struct conn *c, void *bytes, size_t most) {
  if (!c->tls) return recv(c->fd, bytes, most, 0);
  size_t filled = 0;
  while (filled < most) { /* a record at a time; what OpenSSL holds back, epoll does not tell */
    ERR_clear_error();
    errno = 0;
    int n = SSL_read(c->tls, (char *)bytes + filled, most - filled);
    if (n <= 0) return filled ? (ssize_t)filled : result_of(c, n);
    filled += n;
  }
  return filled;
}

bool more_received(const struct conn *c) { return c->tls && SSL_pending(c->tls) > 0; }

#else

void set_up_tls(void) { fail(USAGE, "--tls: built without OpenSSL (Debian: apt install libssl-dev)"); }
void begin_tls(struct conn *c) { (void)c; }
void end_tls(struct conn *c) { (void)c; }
ssize_t send_some(struct conn *c, const void *bytes, size_t length) { return send(c->fd, bytes, length, MSG_NOSIGNAL); }
ssize_t receive_some(struct conn *c, void *bytes, size_t most) { return recv(c->fd, bytes, most, 0); }
bool more_received(const struct conn *c) {
  (void)c;
  return false;
}

#endif
