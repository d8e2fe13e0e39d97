/* The floor of a key-value load engine: an epoll loop that sends ready-made get and set commands of memcached's text
 * protocol on N connections and looks only at the answer's length. What it costs is nearly all kernel: send, wake the
 * server's thread, receive. No latency is recorded, no value is made or looked at.
 *
 * usage: floor_kv HOST PORT CONNECTIONS SECONDS SET_PERCENT KEYS KEY_SIZE VALUE_SIZE
 * prints one JSON line: operations, elapsed_s, operations_per_s, cpu_s, cpu_us_each. Stores every key first, outside the measured
 * time. Build: cc -O2 -o floor_kv floor_kv.c
 */
#define _GNU_SOURCE
#define NAME "floor_kv"
#define UNIT "operations"
#include "floor.h"

static int keys, key_size, value_size, set_percent;
static size_t hit_length, get_length, set_length;
static char key_text[256], get_request[300], *set_request;

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

static void send_command(struct connection *each, int set, uint32_t key) {
  char *request = set ? set_request : get_request, *digits = request + 4 + key_size;
  for (int i = 0; i < 8; i++, key >>= 4) *--digits = "0123456789abcdef"[key & 15];
  send_all(each, request, set ? set_length : get_length, set ? strlen("STORED\r\n") : hit_length);
}

static void send_request(struct connection *each, uint64_t random) {
  send_command(each, (random >> 40) % 100 < (unsigned)set_percent, random % keys);
}

static void store_all(struct connection *each) {
  char answer[64];
  for (int key = 0; key < keys; key++) {
    send_command(each, 1, key);
    while (each->got < each->expected) {
      ssize_t length = recv(each->fd, answer, sizeof answer, 0);
      if (length <= 0) die("the server closed the connection");
      each->got += length;
    }
  }
}

int main(int argc, char **argv) {
  if (argc != 9) {
    fprintf(stderr, "usage: floor_kv HOST PORT CONNECTIONS SECONDS SET_PERCENT KEYS KEY_SIZE VALUE_SIZE\n");
    return 2;
  }
  int count = atoi(argv[3]);
  set_percent = atoi(argv[5]), keys = atoi(argv[6]), key_size = atoi(argv[7]), value_size = atoi(argv[8]);
  if (key_size < 8 || key_size > 250) die("a key has 8 to 250 bytes");
  memset(key_text, 'k', sizeof key_text);
  set_request = malloc(value_size + 400);
  make_requests();
  struct connection *connections = calloc(count, sizeof *connections);
  int poller = epoll_create1(0);
  for (int i = 0; i < count; i++) {
    connections[i].fd = dial(argv[1], argv[2]);
    watch(poller, &connections[i]);
  }
  store_all(&connections[0]);
  run(poller, connections, count, atof(argv[4]));
  return 0;
}
