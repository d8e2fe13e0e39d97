/* What the floors share: connections, the clock, and the epoll loop. A floor sends ready-made requests on N connections and
 * looks only at the length of the answers. What it costs is nearly all kernel: send, wake the server's thread, receive. No
 * latency is recorded. A floor defines NAME (of itself), UNIT (of its requests, for the JSON keys) and send_request.
 */
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
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

struct connection {
  int fd;
  uint32_t statement;
  /* Bytes of the current answer, received and in all. */
  size_t got, expected;
};

/* Sends the next request, chosen by a random number, and sets what its answer comes to. */
static void send_request(struct connection *each, uint64_t random);

static void die(const char *what) {
  fprintf(stderr, NAME ": %s: %s\n", what, strerror(errno));
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

/* A port that begins with a slash is a Unix socket. */
static int dial(const char *host, const char *port) {
  int fd, on = 1;
  if (port[0] == '/') {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, port, sizeof address.sun_path - 1);
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address)) die("connect");
    return fd;
  }
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
  inet_pton(AF_INET, host, &address.sin_addr);
  fd = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(fd, (struct sockaddr *)&address, sizeof address)) die("connect");
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

static void watch(int poller, struct connection *each) {
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = each};
  epoll_ctl(poller, EPOLL_CTL_ADD, each->fd, &event);
}

static void send_all(struct connection *each, const void *request, size_t length, size_t expected) {
  each->expected = expected;
  each->got = 0;
  if (send(each->fd, request, length, MSG_NOSIGNAL) != (ssize_t)length) die("send");
}

/* The load: one request under way on each connection, for so many seconds; prints the result as one JSON line. */
static void run(int poller, struct connection *connections, int count, double duration) {
  static char answer[65536];
  uint64_t state = 88172645463325252ull, done = 0;
  double cpu = cpu_seconds(), start = seconds(), stop = start + duration;
  for (int i = 0; i < count; i++) send_request(&connections[i], i);
  struct epoll_event events[512];
  while (seconds() < stop) {
    int ready = epoll_wait(poller, events, 512, 100);
    for (int i = 0; i < ready; i++) {
      struct connection *each = events[i].data.ptr;
      ssize_t length = recv(each->fd, answer, sizeof answer, 0);
      if (length <= 0) die("the server closed the connection");
      each->got += length;
      if (each->got < each->expected) continue;
      if (each->got > each->expected) die("an answer is longer than it can be");
      done++;
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      send_request(each, state);
    }
  }
  double elapsed = seconds() - start;
  cpu = cpu_seconds() - cpu;
  printf("{\"program\":\"" NAME "\",\"connections\":%d,\"" UNIT "\":%lu,\"elapsed_s\":%.3f,\"" UNIT "_per_s\":%.1f,"
         "\"cpu_s\":%.3f,\"cpu_us_each\":%.3f}\n",
         count, done, elapsed, done / elapsed, cpu, cpu * 1e6 / done);
}
