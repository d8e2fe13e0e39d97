/* Preloaded into a database server by tests: what every answer to a client costs more, when the server
   stalls, and when it ends.

   PLANT_BURN_NS     CPU time that each send() of the server takes more, in nanoseconds
   PLANT_END_AFTER   the server ends in this send(), counted from its start; 0: never
   PLANT_EXIT_CODE   how it ends: by _exit() with this code; 0: by abort()
   PLANT_LEAK_BYTES  memory that each send() takes, writes to and never gives back
   PLANT_STALL_EVERY_MS, PLANT_STALL_MS
                     at every multiple of the first on the monotonic clock each send() waits until the second is over
*/
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static ssize_t (*real_send)(int, const void *, size_t, int);
static long burn_ns, end_after, exit_code, leak_bytes, stall_every_ms, stall_ms;
static atomic_long calls;

static long number(const char *name) {
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

__attribute__((constructor)) static void read_environment(void) {
    real_send = (ssize_t (*)(int, const void *, size_t, int))dlsym(RTLD_NEXT, "send");
    burn_ns = number("PLANT_BURN_NS");
    end_after = number("PLANT_END_AFTER");
    exit_code = number("PLANT_EXIT_CODE");
    leak_bytes = number("PLANT_LEAK_BYTES");
    stall_every_ms = number("PLANT_STALL_EVERY_MS");
    stall_ms = number("PLANT_STALL_MS");
}

static void wait_for_end_of_stall(void) {
    struct timespec now, rest;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long since_ms = (now.tv_sec * 1000L + now.tv_nsec / 1000000) % stall_every_ms;
    if (since_ms >= stall_ms)
        return;
    rest.tv_sec = (stall_ms - since_ms) / 1000;
    rest.tv_nsec = (stall_ms - since_ms) % 1000 * 1000000;
    nanosleep(&rest, NULL);
}

static long thread_cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

ssize_t send(int socket, const void *bytes, size_t length, int flags) {
    if (end_after && atomic_fetch_add(&calls, 1) + 1 == end_after) {
        if (exit_code)
            _exit((int)exit_code);
        abort();
    }
    if (leak_bytes) {
        char *leaked = malloc(leak_bytes);
        if (leaked)
            memset(leaked, 1, leak_bytes);
    }
    if (stall_every_ms)
        wait_for_end_of_stall();
    if (burn_ns) {
        long end_ns = thread_cpu_ns() + burn_ns;
        while (thread_cpu_ns() < end_ns)
            ;
    }
    return real_send(socket, bytes, length, flags);
}
