/*
 * empty_mhd.c - answers each request with an empty 200: the upper bound of libmicrohttpd.
 *
 *   empty_mhd PORT THREADS
 *
 * Set up like the service (http_server.c, http_listen.c, worker.c): each thread has a libuv loop
 * and a daemon on the shared port, whose epoll descriptor the loop watches. The handler
 * reads no header, allocates no memory and reads no clock. Runs until it is killed.
 */
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#define THREADS_MAX             64
#define LISTEN_BACKLOG          4096
#define CONNECTION_MEMORY_BYTES 10240
#define CONNECTION_COUNT_MAX    100000
#define IDLE_WAKE_MS            1000

struct server {
    uv_loop_t loop;
    uv_poll_t poll;
    uv_prepare_t turn_end;
    uv_timer_t timer;
    struct MHD_Daemon *daemon;
    struct MHD_Response *response;
};

// NOLINTNEXTLINE(readability-function-size): libmicrohttpd's signature
static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection,
                                  const char *path, const char *method,
                                  const char *http_version, const char *data,
                                  size_t *data_len, void **request_slot)
{
    struct server *server = arg;

    (void)path;
    (void)method;
    (void)http_version;
    (void)data;
    if (*request_slot == NULL) { /* only the headers have arrived */
        *request_slot = server;
        return MHD_YES;
    }
    *data_len = 0;
    return MHD_queue_response(connection, MHD_HTTP_OK, server->response);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct server *server = poll->data;

    (void)status;
    (void)events;
    MHD_run(server->daemon);
}

static void on_timer(uv_timer_t *timer)
{
    struct server *server = timer->data;

    MHD_run(server->daemon);
}

static void on_turn_end(uv_prepare_t *prepare)
{
    struct server *server = prepare->data;
    MHD_UNSIGNED_LONG_LONG wait_ms = IDLE_WAKE_MS;

    if (MHD_get_timeout(server->daemon, &wait_ms) == MHD_YES && wait_ms == 0)
        MHD_run(server->daemon);
    if (wait_ms == 0 || !uv_is_active((uv_handle_t *)&server->timer))
        uv_timer_start(&server->timer, on_timer,
                       wait_ms < IDLE_WAKE_MS ? wait_ms : IDLE_WAKE_MS, 0);
}

static int listen_shared(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int on = 1;

    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) == 0 &&
        bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
        listen(fd, LISTEN_BACKLOG) == 0)
        return fd;
    perror("empty_mhd");
    _exit(1);
}

static void start(struct server *server, uint16_t port)
{
    server->response = MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL,
        on_request, server, MHD_OPTION_LISTEN_SOCKET, listen_shared(port),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY_BYTES,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTION_COUNT_MAX,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    if (server->daemon == NULL) {
        fprintf(stderr, "empty_mhd: cannot start libmicrohttpd\n");
        _exit(1);
    }
    uv_loop_init(&server->loop);
    uv_poll_init(&server->loop, &server->poll,
                 MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd);
    uv_prepare_init(&server->loop, &server->turn_end);
    uv_timer_init(&server->loop, &server->timer);
    server->poll.data = server->turn_end.data = server->timer.data = server;
    uv_poll_start(&server->poll, UV_READABLE, on_readable);
    uv_prepare_start(&server->turn_end, on_turn_end);
}

static void *run(void *arg)
{
    struct server *server = arg;

    uv_run(&server->loop, UV_RUN_DEFAULT);
    return NULL;
}

int main(int argc, char **argv)
{
    uint16_t port = argc == 3 ? (uint16_t)strtoul(argv[1], NULL, 10) : 0;
    size_t count = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    static struct server servers[THREADS_MAX];
    pthread_t thread;

    if (port == 0 || count == 0 || count > THREADS_MAX) {
        fprintf(stderr, "usage: empty_mhd PORT THREADS\n");
        return 2;
    }
    for (size_t i = 0; i < count; i++)
        start(&servers[i], port);
    for (size_t i = 1; i < count; i++) {
        if (pthread_create(&thread, NULL, run, &servers[i]) != 0)
            return 1;
    }
    run(&servers[0]);
    return 0;
}
