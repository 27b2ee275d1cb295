/* Paho C, its asynchronous client: carries out the orders on standard input, one line of flat JSON each. */
#include <MQTTAsync.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CALM_MS = 20000, POLL_US = 10000, LINE_BYTES = 4 << 20, VALUE_BYTES = 512 };

struct message {
  char *topic, *payload;
  int length, qos;
  bool retain;
};

static MQTTAsync client;
static int version;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct message *messages;
static size_t message_count, message_room, taken;
static char lost[VALUE_BYTES], failure[VALUE_BYTES];
static bool leaving;
static long done, granted; /* how many calls have succeeded; the QoS that the last SUBACK grants */

/* Where the value of a key begins in an order, behind a string's quote; the end of the line if there is none. */
static const char *value_of(const char *line, const char *key) {
  char wanted[64];
  snprintf(wanted, sizeof wanted, "\"%s\": ", key);
  const char *found = strstr(line, wanted);
  if (!found) return "";
  found += strlen(wanted);
  return *found == '"' ? found + 1 : found;
}

static long number(const char *line, const char *key) { return strtol(value_of(line, key), NULL, 10); }

static bool truth(const char *line, const char *key) { return *value_of(line, key) == 't'; }

static char *text(const char *line, const char *key) {
  const char *value = value_of(line, key);
  return strndup(value, strcspn(value, "\""));
}

/* The bytes that a value stands for in hexadecimal digits. */
static unsigned char *bytes(const char *line, const char *key, int *length) {
  const char *digits = value_of(line, key);
  *length = (int)(strcspn(digits, "\"") / 2);
  unsigned char *made = malloc((size_t)*length + 1);
  for (int i = 0; i < *length; i++) {
    char pair[3] = {digits[2 * i], digits[2 * i + 1], 0};
    made[i] = (unsigned char)strtol(pair, NULL, 16);
  }
  return made;
}

static void fail(const char *what, int code) { snprintf(failure, sizeof failure, "%s: %d", what, code); }

static void on_done(void *context, MQTTAsync_successData *data) {
  (void)context;
  pthread_mutex_lock(&lock);
  if (data) granted = data->alt.qos;
  done++;
  pthread_mutex_unlock(&lock);
}

static void on_done5(void *context, MQTTAsync_successData5 *data) {
  (void)context;
  pthread_mutex_lock(&lock);
  if (data) granted = data->reasonCode;
  done++;
  pthread_mutex_unlock(&lock);
}

static void on_failure(void *context, MQTTAsync_failureData *data) { fail(context, data ? data->code : -1); }

static void on_failure5(void *context, MQTTAsync_failureData5 *data) {
  fail(context, data ? (data->reasonCode ? (int)data->reasonCode : data->code) : -1);
}

static void on_lost(void *context, char *cause) {
  (void)context;
  if (!leaving) snprintf(lost, sizeof lost, "connection lost%s%s", cause ? ": " : "", cause ? cause : "");
}

static void on_disconnected(void *context, MQTTProperties *properties, enum MQTTReasonCodes reason) {
  (void)context, (void)properties;
  if (!leaving) snprintf(lost, sizeof lost, "DISCONNECT 0x%02x", reason);
}

static int on_message(void *context, char *topic, int length, MQTTAsync_message *message) {
  (void)context, (void)length;
  pthread_mutex_lock(&lock);
  if (message_count == message_room) {
    message_room = message_room ? 2 * message_room : 1024;
    messages = realloc(messages, message_room * sizeof *messages);
  }
  struct message *kept = &messages[message_count++];
  *kept = (struct message){strdup(topic), malloc((size_t)message->payloadlen + 1), message->payloadlen, message->qos,
                           message->retained};
  memcpy(kept->payload, message->payload, (size_t)message->payloadlen);
  pthread_mutex_unlock(&lock);
  MQTTAsync_freeMessage(&message);
  MQTTAsync_free(topic);
  return 1;
}

/* Whether a call was taken and as many calls as `count` have then been answered; without limit if `ms` is 0. */
static void await(const char *what, int taken_over, long count, int ms) {
  if (taken_over != MQTTASYNC_SUCCESS) {
    fail(what, taken_over);
    return;
  }
  for (int waited = 0; done < count && !*failure && !*lost && (!ms || waited < ms); waited += POLL_US / 1000) usleep(POLL_US);
  if (done < count && !*failure) snprintf(failure, sizeof failure, "%s: no answer (%ld of %ld)", what, done, count);
}

static MQTTAsync_responseOptions answered(const char *what) {
  MQTTAsync_responseOptions options = MQTTAsync_responseOptions_initializer;
  options.context = (void *)what;
  if (version == 5) {
    options.onSuccess5 = on_done5;
    options.onFailure5 = on_failure5;
  } else {
    options.onSuccess = on_done;
    options.onFailure = on_failure;
  }
  return options;
}

static void connect_(const char *line) {
  static MQTTProperties properties = MQTTProperties_initializer;
  MQTTAsync_createOptions made = MQTTAsync_createOptions_initializer5;
  MQTTAsync_connectOptions options = MQTTAsync_connectOptions_initializer;
  MQTTAsync_connectOptions options5 = MQTTAsync_connectOptions_initializer5;
  MQTTAsync_willOptions will = MQTTAsync_willOptions_initializer;
  MQTTAsync_SSLOptions tls = MQTTAsync_SSLOptions_initializer;
  char uri[VALUE_BYTES];
  version = (int)number(line, "version");
  if (version == 5) options = options5;
  snprintf(uri, sizeof uri, "%s://%s:%ld", *value_of(line, "cafile") == '"' ? "tcp" : "ssl", text(line, "host"),
           number(line, "port"));
  char *id = text(line, "client_id");
  int code = version == 5 ? MQTTAsync_createWithOptions(&client, uri, id, MQTTCLIENT_PERSISTENCE_NONE, NULL, &made)
                          : MQTTAsync_create(&client, uri, id, MQTTCLIENT_PERSISTENCE_NONE, NULL);
  if (code == MQTTASYNC_SUCCESS) code = MQTTAsync_setCallbacks(client, NULL, on_lost, on_message, NULL);
  if (code == MQTTASYNC_SUCCESS) code = MQTTAsync_setDisconnected(client, NULL, on_disconnected);
  options.context = "connect";
  if (version == 5) {
    MQTTProperty expiry = {.identifier = MQTTPROPERTY_CODE_SESSION_EXPIRY_INTERVAL};
    expiry.value.integer4 = (unsigned int)number(line, "expiry");
    MQTTProperties_add(&properties, &expiry);
    options.connectProperties = &properties;
    options.cleanstart = truth(line, "clean");
    options.onSuccess5 = on_done5;
    options.onFailure5 = on_failure5;
  } else {
    options.MQTTVersion = MQTTVERSION_3_1_1;
    options.cleansession = truth(line, "clean");
    options.onSuccess = on_done;
    options.onFailure = on_failure;
  }
  if (*value_of(line, "will_topic") != '"') {
    will.topicName = text(line, "will_topic");
    will.payload.data = bytes(line, "will_payload", &will.payload.len);
    will.qos = (int)number(line, "will_qos");
    will.retained = truth(line, "will_retain");
    options.will = &will;
  }
  if (*value_of(line, "cafile") != '"') {
    tls.trustStore = text(line, "cafile");
    tls.verify = 1;
    if (*value_of(line, "certfile") != '"') {
      tls.keyStore = text(line, "certfile");
      tls.privateKey = text(line, "keyfile");
    }
    options.ssl = &tls;
  }
  await("connect", code == MQTTASYNC_SUCCESS ? MQTTAsync_connect(client, &options) : code, 1, CALM_MS);
}

static void subscribe(const char *line) {
  MQTTAsync_responseOptions options = answered("subscribe");
  int qos = (int)number(line, "qos");
  await("subscribe", MQTTAsync_subscribe(client, text(line, "filter"), qos, &options), 1, CALM_MS);
  if (!*failure && granted != qos) fail("granted QoS", (int)granted);
}

static void publish(const char *line) {
  MQTTAsync_responseOptions options = answered("publish");
  int length;
  unsigned char *payload = bytes(line, "payload", &length);
  char *topic = text(line, "topic");
  await("publish", MQTTAsync_send(client, topic, length, payload, (int)number(line, "qos"), truth(line, "retain"), &options),
        1, CALM_MS);
}

static void disconnect(void) {
  MQTTAsync_disconnectOptions options = MQTTAsync_disconnectOptions_initializer;
  MQTTAsync_disconnectOptions options5 = MQTTAsync_disconnectOptions_initializer5;
  if (version == 5) {
    options = options5;
    options.onSuccess5 = on_done5;
    options.onFailure5 = on_failure5;
  } else {
    options.onSuccess = on_done;
    options.onFailure = on_failure;
  }
  options.context = "disconnect";
  options.timeout = CALM_MS;
  leaving = true;
  done = 0;
  await("disconnect", MQTTAsync_disconnect(client, &options), 1, CALM_MS);
}

/* Publish in a loop, wait until each is sent or acknowledged, disconnect. */
static void burst(const char *line) {
  MQTTAsync_responseOptions options = answered("publish");
  long count = number(line, "count"), size = number(line, "size");
  int qos = (int)number(line, "qos"), code = MQTTASYNC_SUCCESS;
  char *topic = text(line, "topic"), *payload = malloc((size_t)size + 1);
  memset(payload, 'x', (size_t)size);
  for (long i = 0; i < count && code == MQTTASYNC_SUCCESS; i++) {
    char head[32];
    snprintf(head, sizeof head, "%08ld", i);
    memcpy(payload, head, 8);
    /* With options, which MQTT 5 needs, Paho C takes 100 messages at a time and asks to come again. */
    while ((code = MQTTAsync_send(client, topic, (int)size, payload, qos, 0, &options)) == MQTTASYNC_MAX_BUFFERED_MESSAGES
           && !*lost) usleep(1000);
  }
  await("burst", code, count, 0);
  if (!*failure && !*lost) disconnect();
}

/* Wait until `count` messages are there or for `seconds` none has come, and print them. */
static void receive(const char *line) {
  size_t count = (size_t)number(line, "count"), seen = message_count;
  double limit = strtod(value_of(line, "seconds"), NULL), waited = 0;
  while (message_count - taken < count && waited < limit) {
    usleep(POLL_US);
    waited = message_count > seen ? 0 : waited + POLL_US / 1e6;
    seen = message_count;
  }
  pthread_mutex_lock(&lock);
  printf("{\"messages\": [");
  for (size_t i = 0; i < count && taken < message_count; i++, taken++) {
    struct message *message = &messages[taken];
    printf("%s[\"%s\", \"", i ? ", " : "", message->topic);
    for (int at = 0; at < message->length; at++) printf("%02x", (unsigned char)message->payload[at]);
    printf("\", %d, %s]", message->qos, message->retain ? "true" : "false");
    free(message->topic);
    free(message->payload);
  }
  printf("], ");
  pthread_mutex_unlock(&lock);
}

int main(void) {
  char *line = malloc(LINE_BYTES);
  while (fgets(line, LINE_BYTES, stdin)) {
    char *verb = text(line, "do");
    done = 0;
    if (!strcmp(verb, "receive")) receive(line);
    else printf("{");
    if (!strcmp(verb, "connect")) connect_(line);
    if (!strcmp(verb, "subscribe")) subscribe(line);
    if (!strcmp(verb, "publish")) publish(line);
    if (!strcmp(verb, "burst")) burst(line);
    if (!strcmp(verb, "disconnect")) disconnect();
    if (*failure) printf("\"error\": \"%s\", ", failure);
    printf("\"lost\": [%s%s%s]}\n", *lost ? "\"" : "", lost, *lost ? "\"" : "");
    fflush(stdout);
    *failure = 0;
    free(verb);
  }
  return 0;
}
