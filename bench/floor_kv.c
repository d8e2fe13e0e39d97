/* The floor of a key-value load engine: an epoll loop that sends ready-made get and set commands of memcached's text
 * protocol on N connections and looks only at the answer's length. What it costs is nearly all kernel: send, wake the
 * server's thread, receive. No latency is recorded, no value is made or looked at.
 *
 * usage: floor_kv HOST PORT CONNECTIONS SECONDS SET_PERCENT KEYS KEY_SIZE VALUE_SIZE
 * prints one JSON line: operations, elapsed_s, cpu_s, cpu_us_per_operation. Stores every key first, outside the measured
 * time. Build: cc -O2 -o floor_kv floor_kv.c
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct connection {
  int fd;
  size_t got, expected;
};

static int keys, key_size, value_size, set_percent;
static size_t hit_length;
static char *request, *value;

static void die(const char *what) {
  fprintf(stderr, "floor_kv: %s: %s\n", what, strerror(errno));
  exit(1);
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec / 1e9;
}

static double cpu_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static int dial(const char *host, const char *port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
  inet_pton(AF_INET, host, &address.sin_addr);
  int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  if (connect(fd, (struct sockaddr *)&address, sizeof address)) die("connect");
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

/* Every key has the same length and every value, too, so every hit is as long as the first. */
static void send_request(struct connection *each, int set, int key) {
  char digits[9];
  snprintf(digits, sizeof digits, "%08x", key);
  size_t length;
  if (set) {
    memcpy(request, "set ", 4);
    memset(request + 4, 'k', key_size - 8);
    memcpy(request + 4 + key_size - 8, digits, 8);
    length = 4 + key_size;
    length += sprintf(request + length, " 0 0 %d\r\n", value_size);
    memcpy(request + length, value, value_size);
    memcpy(request + length + value_size, "\r\n", 2);
    length += value_size + 2;
  } else {
    memcpy(request, "get ", 4);
    memset(request + 4, 'k', key_size - 8);
    memcpy(request + 4 + key_size - 8, digits, 8);
    memcpy(request + 4 + key_size, "\r\n", 2);
    length = 4 + key_size + 2;
  }
  each->expected = set ? 8 : hit_length;
  each->got = 0;
  if (send(each->fd, request, length, MSG_NOSIGNAL) != (ssize_t)length) die("send");
}

int main(int argc, char **argv) {
  if (argc != 9) {
    fprintf(stderr, "usage: floor_kv HOST PORT CONNECTIONS SECONDS SET_PERCENT KEYS KEY_SIZE VALUE_SIZE\n");
    return 2;
  }
  int count = atoi(argv[3]);
  double duration = atof(argv[4]);
  set_percent = atoi(argv[5]), keys = atoi(argv[6]), key_size = atoi(argv[7]), value_size = atoi(argv[8]);
  if (key_size < 8 || key_size > 250) die("a key has 8 to 250 bytes");
  request = malloc(value_size + 400), value = malloc(value_size);
  memset(value, 'v', value_size);
  /* "VALUE key 0 1024\r\n" data "\r\nEND\r\n" */
  hit_length = 6 + key_size + 3 + snprintf(NULL, 0, "%d", value_size) + 2 + value_size + 7;
  char *answer = malloc(65536);
  struct connection *connections = calloc(count, sizeof *connections);
  int poller = epoll_create1(0);
  for (int i = 0; i < count; i++) {
    connections[i].fd = dial(argv[1], argv[2]);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &connections[i]};
    epoll_ctl(poller, EPOLL_CTL_ADD, connections[i].fd, &event);
  }
  for (int key = 0; key < keys; key++) {
    send_request(&connections[0], 1, key);
    for (size_t got = 0; got < 8;) {
      ssize_t length = recv(connections[0].fd, answer, 65536, 0);
      if (length <= 0) die("the server closed the connection");
      got += length;
    }
  }
  uint64_t state = 88172645463325252ull, operations = 0;
  double cpu = cpu_seconds(), start = seconds(), stop = start + duration;
  for (int i = 0; i < count; i++) send_request(&connections[i], 0, i % keys);
  struct epoll_event events[512];
  while (seconds() < stop) {
    int ready = epoll_wait(poller, events, 512, 100);
    for (int i = 0; i < ready; i++) {
      struct connection *each = events[i].data.ptr;
      ssize_t length = recv(each->fd, answer, 65536, 0);
      if (length <= 0) die("the server closed the connection");
      each->got += length;
      if (each->got < each->expected) continue;
      if (each->got > each->expected) die("an answer is longer than it can be");
      operations++;
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      send_request(each, (state >> 40) % 100 < (unsigned)set_percent, state % keys);
    }
  }
  double elapsed = seconds() - start;
  cpu = cpu_seconds() - cpu;
  printf("{\"program\":\"floor_kv\",\"connections\":%d,\"operations\":%lu,\"elapsed_s\":%.3f,\"operations_per_s\":%.1f,"
         "\"cpu_s\":%.3f,\"cpu_us_per_operation\":%.3f}\n",
         count, operations, elapsed, operations / elapsed, cpu, cpu * 1e6 / operations);
  return 0;
}
