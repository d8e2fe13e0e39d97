/* The floor of a load engine: an epoll loop that sends ready-made COM_STMT_EXECUTE packets of
 * "SELECT c FROM sbtest1 WHERE id=?" on N connections and looks only at the answer's length.
 * What it costs is nearly all kernel: send, wake the server's thread, receive. No latency is recorded.
 *
 * usage: floor HOST PORT|SOCKET USER DATABASE TABLE_SIZE CONNECTIONS SECONDS    (an account without a password)
 * prints one JSON line: queries, elapsed_s, queries_per_s, cpu_s, cpu_us_each. Same capabilities as dynoload asks for
 * (no end-of-file packets; MariaDB's cached metadata), so the same packets cross the wire. Build: cc -O2 -o floor floor.c
 */
#define _GNU_SOURCE
#define NAME "floor"
#define UNIT "queries"
#include "floor.h"

enum { CONNECT_WITH_DB = 8, PROTOCOL_41 = 0x200, SECURE = 0x8000, DEPRECATE_EOF = 1 << 24, MULTI = 0x10000, TRANSACTIONS = 0x2000 };
enum { CACHE_METADATA_EXTENDED = 1 << 4 };

static void read_exactly(int fd, unsigned char *into, size_t length) {
  while (length > 0) {
    ssize_t count = recv(fd, into, length, 0);
    if (count <= 0) die("the server closed the connection");
    into += count;
    length -= count;
  }
}

static size_t read_packet(int fd, unsigned char *payload, size_t room) {
  unsigned char header[4];
  read_exactly(fd, header, 4);
  size_t length = header[0] | header[1] << 8 | header[2] << 16;
  if (length > room) die("a packet is longer than expected");
  read_exactly(fd, payload, length);
  return length + 4;
}

static void log_in(int fd, const char *user, const char *database) {
  unsigned char packet[4096] = {0};
  read_packet(fd, packet, sizeof packet);
  /* MariaDB announces its extension by leaving the lowest capability bit unset. */
  size_t version = strlen((char *)packet + 1) + 1;
  int mariadb = !(packet[1 + version + 4 + 9] & 1);
  uint32_t flags = CONNECT_WITH_DB | PROTOCOL_41 | SECURE | DEPRECATE_EOF | TRANSACTIONS | (mariadb ? 0 : 1);
  unsigned char answer[512] = {0};
  size_t at = 4;
  memcpy(answer + at, &flags, 4);
  answer[at + 7] = 1; /* greatest packet: 16 MiB */
  answer[at + 8] = 45; /* utf8mb4_general_ci */
  if (mariadb) answer[at + 28] = CACHE_METADATA_EXTENDED;
  at += 32;
  at += sprintf((char *)answer + at, "%s", user) + 1;
  answer[at++] = 0; /* empty authentication answer */
  at += sprintf((char *)answer + at, "%s", database) + 1;
  answer[0] = at - 4;
  answer[1] = (at - 4) >> 8;
  answer[3] = 1;
  send(fd, answer, at, MSG_NOSIGNAL);
  read_packet(fd, packet, sizeof packet);
  if (packet[0] == 0xfe) { /* another plugin: with an empty password the answer is empty too */
    unsigned char empty[4] = {0, 0, 0, 3};
    send(fd, empty, 4, MSG_NOSIGNAL);
    read_packet(fd, packet, sizeof packet);
  }
  if (packet[0] != 0) {
    fprintf(stderr, "floor: the server refused the account: %s\n", (char *)packet + 9);
    exit(1);
  }
}

static uint32_t prepare(int fd) {
  static const char sql[] = "SELECT c FROM sbtest1 WHERE id=?";
  unsigned char packet[4096];
  packet[0] = sizeof sql;
  packet[1] = packet[2] = packet[3] = 0;
  packet[4] = 0x16;
  memcpy(packet + 5, sql, sizeof sql - 1);
  send(fd, packet, sizeof sql + 4, MSG_NOSIGNAL);
  read_packet(fd, packet, sizeof packet);
  if (packet[0] != 0) {
    fprintf(stderr, "floor: prepare failed: %s\n", (char *)packet + 9);
    exit(1);
  }
  uint32_t statement;
  memcpy(&statement, packet + 1, 4);
  int definitions = packet[5] + packet[7];
  for (int i = 0; i < definitions; i++) read_packet(fd, packet, sizeof packet);
  return statement;
}

static size_t execute(unsigned char *packet, uint32_t statement, int bind, uint64_t id) {
  memset(packet, 0, 32);
  packet[4] = 0x17;
  memcpy(packet + 5, &statement, 4);
  packet[10] = 1; /* iterations */
  packet[15] = bind;
  size_t at = 16;
  if (bind) {
    packet[at] = 8; /* BIGINT */
    at += 2;
  }
  memcpy(packet + at, &id, 8);
  at += 8;
  packet[0] = at - 4;
  return at;
}

static uint32_t table_size;
static size_t answer_length;

static void send_request(struct connection *each, uint64_t random) {
  unsigned char packet[64];
  size_t length = execute(packet, each->statement, 0, random % table_size + 1);
  send_all(each, packet, length, answer_length);
}

/* The first execution binds the parameter's type and shows the length of every later answer. */
static size_t execute_first(struct connection *each) {
  unsigned char packet[64], answer[16384];
  if (send(each->fd, packet, execute(packet, each->statement, 1, 1), MSG_NOSIGNAL) < 0) die("send");
  size_t length = read_packet(each->fd, answer, sizeof answer), sum = length;
  int metadata = length == 5 || answer[1];
  if (metadata) sum += read_packet(each->fd, answer, sizeof answer);
  do {
    length = read_packet(each->fd, answer, sizeof answer);
    sum += length;
  } while (answer[0] != 0xfe);
  return sum;
}

int main(int argc, char **argv) {
  if (argc != 8) {
    fprintf(stderr, "usage: floor HOST PORT|SOCKET USER DATABASE TABLE_SIZE CONNECTIONS SECONDS\n");
    return 2;
  }
  table_size = atoi(argv[5]);
  int count = atoi(argv[6]);
  struct connection *connections = calloc(count, sizeof *connections);
  int poller = epoll_create1(0);
  for (int i = 0; i < count; i++) {
    struct connection *each = &connections[i];
    each->fd = dial(argv[1], argv[2]);
    log_in(each->fd, argv[3], argv[4]);
    each->statement = prepare(each->fd);
    answer_length = execute_first(each);
    watch(poller, each);
  }
  run(poller, connections, count, atof(argv[7]));
  return 0;
}
