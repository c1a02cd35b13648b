/* See weir_plugin.h. The first half is the memory of a worker (docs/worker-abi.md), the second talks to weir-bridge. */
#define _GNU_SOURCE
#include "weir_plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
  CONNECT_SECONDS = 5,
  NAP_NANOSECONDS = 50 * 1000 * 1000, /* longest sleep between two looks at whether the agent is there */
  SPINS = 2000,                       /* looks before a sleep: some 10 µs */
  BRIDGE_FD = 4,                      /* where weir-bridge finds its end of the pair; 3 is the engine's lifeline */
};

/* Started by an engine, which reads lines of JSON, rather than by a person. */
static int by_engine(void) { return getenv("PLUGIN_PROTOCOL_VERSIONS") != NULL; }

void weir_log(const char *level, const char *format, ...) {
  char text[1000], line[6 * sizeof text + 100];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  size_t n = 0;
  if (by_engine()) {
    n = (size_t)snprintf(line, 50, "{\"@level\":\"%.20s\",\"@message\":\"", level);
    for (const char *c = text; *c; c++) {
      if (*c == '"' || *c == '\\') line[n++] = '\\';
      if ((unsigned char)*c < ' ')
        n += (size_t)sprintf(line + n, "\\u%04x", *c);
      else
        line[n++] = *c;
    }
    line[n++] = '"', line[n++] = '}';
  } else {
    n = strlen(text);
    memcpy(line, text, n);
  }
  line[n++] = '\n';
  (void)!write(STDERR_FILENO, line, n); /* at once, so that lines of several threads stay whole */
}

struct group {
  const struct weir_plugin *plugin;
  char name[128];
  int socket;
  struct weir_worker_header *control;
  const uint8_t *inputs;
  size_t control_bytes, input_bytes;
};

/* An error for people: its text goes into error[0..size), its value is -1. */
static int fail(char *error, size_t size, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error, size, format, arguments);
  va_end(arguments);
  return -1;
}

static _Atomic uint32_t *word32(struct group *g, uint64_t at) { return (_Atomic uint32_t *)((uint8_t *)g->control + at); }
static _Atomic uint64_t *word64(struct group *g, uint64_t at) { return (_Atomic uint64_t *)((uint8_t *)g->control + at); }

static long futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *timeout) {
  return syscall(SYS_futex, word, operation, value, timeout, NULL, 0); /* shared between processes, so not FUTEX_PRIVATE_FLAG */
}

/* Maps what the agent's only message brings. */
static int receive_memory(struct group *g, char *error, size_t size) {
  struct weir_worker_greeting greeting;
  union {
    struct cmsghdr header;
    char space[CMSG_SPACE(2 * sizeof(int))];
  } rights;
  struct iovec part = {&greeting, sizeof greeting};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &rights, .msg_controllen = sizeof rights};
  ssize_t n = recvmsg(g->socket, &message, MSG_CMSG_CLOEXEC);
  if (n < 0) return fail(error, size, "receive the memory: %s", strerror(errno));
  int fd[2] = {-1, -1};
  struct cmsghdr *first = CMSG_FIRSTHDR(&message);
  if (first && first->cmsg_type == SCM_RIGHTS && first->cmsg_len == CMSG_LEN(sizeof fd)) memcpy(fd, CMSG_DATA(first), sizeof fd);
  int bad = 0;
  if (n != sizeof greeting || memcmp(greeting.greeting, WEIR_WORKER_GREETING, 8) || fd[1] < 0)
    bad = fail(error, size, "the socket is no agent's for workers");
  else if (greeting.version != WEIR_WORKER_VERSION)
    bad = fail(error, size, "the agent offers version %u of the worker's memory, this worker knows %u", greeting.version, WEIR_WORKER_VERSION);
  struct stat control, inputs;
  if (!bad && (fstat(fd[0], &control) || fstat(fd[1], &inputs))) bad = fail(error, size, "size of the memory: %s", strerror(errno));
  if (!bad) {
    g->control_bytes = control.st_size, g->input_bytes = inputs.st_size;
    g->control = mmap(NULL, g->control_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd[0], 0);
    g->inputs = mmap(NULL, g->input_bytes, PROT_READ, MAP_SHARED, fd[1], 0);
    if (g->control == MAP_FAILED || g->inputs == MAP_FAILED) bad = fail(error, size, "map the memory: %s", strerror(errno));
  }
  for (int i = 0; i < 2; i++)
    if (fd[i] >= 0) close(fd[i]); /* the mappings keep the memory */
  if (bad) return bad;
  const struct weir_worker_header *h = g->control;
  if (g->control_bytes < sizeof *h || h->magic != WEIR_WORKER_MAGIC || h->version != WEIR_WORKER_VERSION || h->slots == 0 ||
      weir_output_at(h, h->slots) > g->control_bytes || weir_input_at(h, h->world, 0) > g->input_bytes)
    return fail(error, size, "the memory is not what this worker knows");
  return 0;
}

/* The service is over when the agent says so or closes the connection, on which nothing else ever comes. */
static int over(struct group *g) {
  char byte;
  if (atomic_load_explicit(word32(g, offsetof(struct weir_worker_header, stop)), memory_order_acquire)) return 1;
  ssize_t n = recv(g->socket, &byte, 1, MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

static int arrived(struct group *g, uint64_t tile) {
  uint32_t slot = weir_slot(g->control, tile);
  for (uint32_t r = 0; r < g->control->world; r++)
    if (atomic_load_explicit(word64(g, weir_record_at(g->control, r, slot)), memory_order_acquire) < tile) return 0;
  return 1;
}

/* Waits until all ranks have filled their slots for a tile; 0 if they will not. */
static int await(struct group *g, uint64_t tile) {
  _Atomic uint32_t *doorbell = word32(g, offsetof(struct weir_worker_header, doorbell));
  _Atomic uint32_t *asleep = word32(g, offsetof(struct weir_worker_header, asleep));
  for (int looks = 0; !arrived(g, tile); looks++) {
    if (looks < SPINS) continue;
    if (over(g)) return 0;
    atomic_fetch_add(asleep, 1);
    uint32_t before = atomic_load(doorbell);
    if (!arrived(g, tile)) { /* looked at after who rings can know of the sleeper */
      struct timespec nap = {0, NAP_NANOSECONDS};
      futex(doorbell, FUTEX_WAIT, before, &nap);
    }
    atomic_fetch_sub(asleep, 1);
  }
  return !over(g);
}

/* Fills in a tile; 0 if the ranks do not say the same of it, or what is impossible. */
static int agreed(struct group *g, uint64_t number, struct weir_tile *tile, const void **in) {
  static const uint8_t sizes[] = {4, 8, 2, 2, 1, 1, 4, 8};
  const struct weir_worker_header *h = g->control;
  uint32_t slot = weir_slot(h, number);
  const uint8_t *memory = (const uint8_t *)h;
  const struct weir_worker_record *first = (const void *)(memory + weir_record_at(h, 0, slot));
  for (uint32_t r = 0; r < h->world; r++) {
    const struct weir_worker_record *said = (const void *)(memory + weir_record_at(h, r, slot));
    if (said->call != first->call || said->bytes != first->bytes || said->total != first->total || said->data_type != first->data_type ||
        said->op != first->op)
      return 0;
    in[r] = g->inputs + weir_input_at(h, r, slot);
  }
  if (first->data_type > WEIR_INT64 || first->op > WEIR_AVG || first->bytes == 0 || first->bytes > h->slot_bytes ||
      first->bytes % sizes[first->data_type])
    return 0;
  *tile = (struct weir_tile){
      .call = first->call, .type = first->data_type, .op = first->op, .world = h->world, .bytes = first->bytes, .in = in,
      .out = (uint8_t *)g->control + weir_output_at(h, slot),
  };
  return 1;
}

/* Says that a tile is done; 0 if it had been given up. It is the last thing that is done to a tile. */
static int complete(struct group *g, uint64_t tile) {
  _Atomic uint64_t *word = word64(g, weir_completion_at(g->control, weir_slot(g->control, tile)));
  uint64_t before = atomic_load_explicit(word, memory_order_acquire);
  if (before >> 32 == WEIR_WORKER_FAILED) return 0;
  /* Release order: who sees the word sees the output. */
  if (!atomic_compare_exchange_strong_explicit(word, &before, weir_completion(tile, WEIR_WORKER_DONE), memory_order_release, memory_order_acquire))
    return 0;
  _Atomic uint32_t *bell = word32(g, offsetof(struct weir_worker_header, bell));
  atomic_fetch_add(bell, 1);
  if (atomic_load(word32(g, offsetof(struct weir_worker_header, waiting)))) futex(bell, FUTEX_WAKE, INT_MAX, NULL);
  return 1;
}

static void *serve_group(void *argument) {
  struct group *g = argument;
  const void **in = calloc(g->control->world, sizeof *in);
  for (uint64_t number = 1; in && await(g, number); number++) {
    struct weir_tile tile;
    if (!agreed(g, number, &tile, in)) continue; /* the ranks find it out by themselves and ask for no other tile */
    int code = g->plugin->reduce(&tile);
    if (code) {
      weir_log("error", "the service of group %s has ended: all-reduce %llu: reduce returned %d", g->name, (unsigned long long)tile.call, code);
      break;
    }
    if (!complete(g, number)) break;
  }
  free(in);
  close(g->socket); /* tells the agent that nobody serves */
  munmap(g->control, g->control_bytes);
  munmap((void *)g->inputs, g->input_bytes);
  free(g);
  return NULL;
}

/* Refuses an agent of another user, whose memory is not to be worked on. */
static int check_agent(int socket, char *error, size_t size) {
  struct ucred agent;
  socklen_t length = sizeof agent;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &agent, &length)) return fail(error, size, "who listens there: %s", strerror(errno));
  if (agent.uid != geteuid() && agent.uid != 0)
    return fail(error, size, "process %d of user %u listens there, neither you (%u) nor root", agent.pid, agent.uid, geteuid());
  return 0;
}

/* Begins to serve a group, on a thread of its own. */
static int attach(const struct weir_plugin *plugin, const char *name, const char *path, char *error, size_t size) {
  struct group *g = calloc(1, sizeof *g);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (!g) return fail(error, size, "no memory");
  g->plugin = plugin;
  snprintf(g->name, sizeof g->name, "%s", name);
  g->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct timeval patience = {CONNECT_SECONDS, 0};
  int bad = 0;
  if (strlen(path) >= sizeof address.sun_path) bad = fail(error, size, "the path of the socket is too long");
  if (!bad) {
    strcpy(address.sun_path, path);
    setsockopt(g->socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(g->socket, (struct sockaddr *)&address, sizeof address)) bad = fail(error, size, "connect to %s: %s", path, strerror(errno));
  }
  if (!bad) bad = check_agent(g->socket, error, size);
  /* The agent sends when it has accepted the connection, and wants an answer, whatever becomes of Attach. */
  if (!bad && (bad = receive_memory(g, error, size))) (void)!write(g->socket, error, strlen(error));
  if (!bad && write(g->socket, "\1", 1) != 1) bad = fail(error, size, "answer the agent: %s", strerror(errno));
  pthread_t thread;
  if (!bad && (errno = pthread_create(&thread, NULL, serve_group, g))) bad = fail(error, size, "start a thread: %s", strerror(errno));
  if (bad) {
    if (g->socket >= 0) close(g->socket);
    free(g);
    return bad;
  }
  pthread_detach(thread);
  return 0;
}

/* Becomes weir-bridge. */
static void run_bridge(int pair) {
  if (pair != BRIDGE_FD && dup2(pair, BRIDGE_FD) < 0) _exit(1);
  fcntl(BRIDGE_FD, F_SETFD, 0);
  const char *named = getenv("WEIR_BRIDGE");
  if (named && *named) {
    execl(named, named, (char *)NULL);
  } else {
    char self[PATH_MAX - 32], beside[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0) {
      self[n] = 0;
      snprintf(beside, sizeof beside, "%s/weir-bridge", dirname(self));
      execl(beside, beside, (char *)NULL);
    }
    execlp("weir-bridge", "weir-bridge", (char *)NULL);
  }
  weir_log("error", "cannot start weir-bridge: %s: put it beside this program or into PATH, or name it in WEIR_BRIDGE", strerror(errno));
  _exit(1);
}

/* Answers the bridge's "attach GROUP SOCKET" until it is gone. */
static void answer(const struct weir_plugin *plugin, FILE *from, int to) {
  char *line = NULL;
  size_t room = 0;
  ssize_t n;
  while ((n = getline(&line, &room, from)) > 0) {
    char error[1000] = "ok", *rest = line;
    line[strcspn(line, "\n")] = 0;
    const char *verb = strsep(&rest, " "), *group = strsep(&rest, " ");
    if (strcmp(verb, "attach") || !rest)
      fail(error, sizeof error, "unknown request %s", verb);
    else
      attach(plugin, group, rest, error, sizeof error);
    for (char *c = error; *c; c++)
      if (*c == '\n') *c = ' ';
    if (dprintf(to, "%s\n", error) < 0) break;
  }
  free(line);
}

/* Says what the worker offers, on one line. */
static int introduce(const struct weir_plugin *plugin, int to) {
  char *backend = strdup(plugin->backend);
  for (char *c = backend; c && *c; c++)
    if (*c == '\n') *c = ' ';
  int n = backend ? dprintf(to, "{\"version\": \"%s\", \"slot_bytes\": %llu, \"slots\": %u, \"backend\": %s}\n", plugin->version,
                            (unsigned long long)plugin->slot_bytes, plugin->slots, backend)
                  : -1;
  free(backend);
  return n < 0;
}

int weir_serve(const struct weir_plugin *plugin) {
  int pair[2], status;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
    weir_log("error", "weir_serve: socketpair: %s", strerror(errno));
    return 1;
  }
  pid_t bridge = fork();
  if (bridge < 0) {
    weir_log("error", "weir_serve: fork: %s", strerror(errno));
    return 1;
  }
  if (bridge == 0) run_bridge(pair[1]);
  close(pair[1]);
  signal(SIGPIPE, SIG_IGN); /* peers may go at any time; write says so */
  if (by_engine()) { /* which decides when a plugin is done */
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
  }
  if (introduce(plugin, pair[0])) weir_log("error", "weir_serve: tell weir-bridge: %s", strerror(errno));
  FILE *from = fdopen(pair[0], "r");
  if (from) answer(plugin, from, pair[0]);
  while (waitpid(bridge, &status, 0) < 0 && errno == EINTR) {}
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1; /* groups that are still served end with the process */
}
