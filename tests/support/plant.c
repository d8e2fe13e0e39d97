/* Preloaded into a database server by tests: what every answer to a client costs more, when the server
   stalls, and when it ends.

   PLANT_BURN_NS     CPU time that each send() of the server takes more, in nanoseconds
   PLANT_END_AFTER   the server ends in this send(), counted from its start; 0: never
   PLANT_EXIT_CODE   how it ends: by _exit() with this code; 0: by abort()
   PLANT_KEEP_BYTES  memory that the server takes at its start, writes to and never gives back
   PLANT_LEAK_BYTES  memory that each send() takes, writes to and never gives back
   PLANT_LEAK_BYTES_PER_S
                     the same for each second since the start, as soon as they are 4 kB and a send() comes
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
static long burn_ns, clock_ns, end_after, exit_code, leak_bytes, leak_bytes_per_s, stall_every_ms, stall_ms;
static atomic_long calls, leaked_bytes;
static long start_ns;

static long number(const char *name) {
    const char *text = getenv(name);
    return text ? atol(text) : 0;
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

/* Read without a system call: one alone takes as long as the shortest burns. */
static long clock_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

/* Where the compiler must store a pointer: memory that nobody can reach is not even taken otherwise. */
static char *volatile kept;

static void keep(long bytes) {
    char *taken = bytes ? malloc(bytes) : NULL;
    if (taken)
        memset(taken, 1, bytes);
    kept = taken;
}

__attribute__((constructor)) static void read_environment(void) {
    real_send = (ssize_t (*)(int, const void *, size_t, int))dlsym(RTLD_NEXT, "send");
    burn_ns = number("PLANT_BURN_NS");
    end_after = number("PLANT_END_AFTER");
    exit_code = number("PLANT_EXIT_CODE");
    leak_bytes = number("PLANT_LEAK_BYTES");
    leak_bytes_per_s = number("PLANT_LEAK_BYTES_PER_S");
    keep(number("PLANT_KEEP_BYTES"));
    stall_every_ms = number("PLANT_STALL_EVERY_MS");
    stall_ms = number("PLANT_STALL_MS");
    /* What reading the clock takes is burnt, too. */
    long began_ns = start_ns = clock_now_ns();
    for (int i = 0; i < 1000; i++)
        clock_now_ns();
    clock_ns = (clock_now_ns() - began_ns) / 1000;
}

static void leak_by_time(void) {
    long due = (clock_now_ns() - start_ns) / 1000 * leak_bytes_per_s / 1000000, before = atomic_load(&leaked_bytes);
    if (due - before >= 4096 && atomic_compare_exchange_strong(&leaked_bytes, &before, due))
        keep(due - before);
}

/* Longer between two readings of the clock: another thread, or another machine, had the CPU. */
#define ABSENT_NS 50000

/* Some microseconds without a call, so that samples are taken in the function that spins; at most a tenth of the time
   that is to be burnt, as the last turn may end that much too late. */
static inline __attribute__((always_inline)) void spin(void) {
    long turns = burn_ns / 10 < 5000 ? burn_ns / 10 : 5000;
    for (volatile long i = 0; i < turns; i++)
        ;
}

static inline __attribute__((always_inline)) void burn(void) {
    long now_ns = clock_now_ns(), end_ns = now_ns + burn_ns - 2 * clock_ns;
    while (now_ns < end_ns) {
        spin();
        long later_ns = clock_now_ns();
        if (later_ns - now_ns > ABSENT_NS)
            end_ns += later_ns - now_ns;
        now_ns = later_ns;
    }
}

ssize_t send(int socket, const void *bytes, size_t length, int flags) {
    if (end_after && atomic_fetch_add(&calls, 1) + 1 == end_after) {
        if (exit_code)
            _exit((int)exit_code);
        abort();
    }
    if (leak_bytes)
        keep(leak_bytes);
    if (leak_bytes_per_s)
        leak_by_time();
    if (stall_every_ms)
        wait_for_end_of_stall();
    if (burn_ns)
        burn();
    return real_send(socket, bytes, length, flags);
}
