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
static size_t hit_length, get_length, set_length;
static char key_text[256], get_request[300], *set_request;

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

/* Every key has the same length and every value, too, so every hit is as long as the first. The commands are made once;
 * only the digits at the key's end change. */
static void make_requests(void) {
  get_length = sprintf(get_request, "get %.*s\r\n", key_size, key_text);
  set_length = sprintf(set_request, "set %.*s 0 0 %d\r\n", key_size, key_text, value_size);
  memset(set_request + set_length, 'v', value_size);
  memcpy(set_request + set_length + value_size, "\r\n", 2);
  set_length += value_size + 2;
  /* "VALUE key 0 1024\r\n" data "\r\nEND\r\n" */
  hit_length = 6 + key_size + 3 + snprintf(NULL, 0, "%d", value_size) + 2 + value_size + 7;
}

static void send_request(struct connection *each, int set, uint32_t key) {
  char *request = set ? set_request : get_request, *digits = request + 4 + key_size;
  size_t length = set ? set_length : get_length;
  for (int i = 0; i < 8; i++, key >>= 4) *--digits = "0123456789abcdef"[key & 15];
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
  memset(key_text, 'k', sizeof key_text);
  set_request = malloc(value_size + 400);
  make_requests();
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
