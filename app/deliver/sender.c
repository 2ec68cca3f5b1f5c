/* sender.c - drives libcurl's multi interface by the loop. */
#include "app/deliver/sender.h"

#include "app/deliver/destination.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_MAX 65536 /* bytes */

struct sender {
    uv_loop_t *loop;
    uv_timer_t timer;
    CURLM *multi;
    const struct address_networks *allowed;
};

struct transfer {
    struct sender *sender;
    CURL *easy;
    struct curl_slist *headers;
    sender_cb done;
    void *arg;
    bool is_https;
    size_t received;
    const char *refusal; /* why this program ended the transfer; NULL: it did not */
    char error[CURL_ERROR_SIZE];
};

static void transfer_free(struct transfer *transfer)
{
    curl_easy_cleanup(transfer->easy);
    curl_slist_free_all(transfer->headers);
    free(transfer);
}

/* -- callbacks of a transfer -- */

static curl_socket_t sender_on_socket(void *arg, curlsocktype purpose UNUSED,
                                      struct curl_sockaddr *address)
{
    struct transfer *transfer = arg;

    transfer->refusal =
        destination_check(transfer->sender->allowed, &address->addr, transfer->is_https);
    return transfer->refusal != NULL
               ? CURL_SOCKET_BAD
               : socket(address->family, address->socktype | SOCK_CLOEXEC,
                        address->protocol);
}

/* The answer is not kept. A long one ends the transfer. */
static size_t sender_on_answer(char *bytes UNUSED, size_t size, size_t count, void *arg)
{
    struct transfer *transfer = arg;

    transfer->received += size * count;
    if (transfer->received <= ANSWER_MAX)
        return size * count;
    transfer->refusal = "the answer is longer than 64 KiB";
    return CURL_WRITEFUNC_ERROR;
}

/* Returns NULL if the transfer has succeeded, otherwise why it has failed. `text` is memory for the
   reason. */
static const char *error_of(const struct transfer *transfer, CURLcode code, char *text,
                            size_t size)
{
    long status = 0;

    if (code != CURLE_OK) {
        if (transfer->refusal != NULL)
            return transfer->refusal;
        return transfer->error[0] != '\0' ? transfer->error : curl_easy_strerror(code);
    }
    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status < 300) /* 1xx is not the status of a complete answer */
        return NULL;
    snprintf(text, size, "HTTP status %ld", status);
    return text;
}

static void finish(struct transfer *transfer, CURLcode code)
{
    char text[32];

    curl_multi_remove_handle(transfer->sender->multi, transfer->easy);
    transfer->done(error_of(transfer, code, text, sizeof(text)), transfer->arg);
    transfer_free(transfer);
}

static void finish_all(struct sender *sender)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(sender->multi, &left)) != NULL) {
        CURLcode code = message->data.result;
        struct transfer *transfer;

        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
        finish(transfer, code);
    }
}

/* -- the loop calls libcurl -- */

/* Without events, libcurl asks the socket itself what has happened. */
static void act(struct sender *sender, curl_socket_t fd)
{
    int running;

    curl_multi_socket_action(sender->multi, fd, 0, &running);
    finish_all(sender);
}

static void sender_on_timer(uv_timer_t *timer)
{
    act(timer->data, CURL_SOCKET_TIMEOUT);
}

static void sender_on_poll(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
    uv_os_fd_t fd;

    uv_fileno((uv_handle_t *)poll, &fd);
    act(poll->data, fd);
}

/* -- libcurl says what to wait for -- */

static int sender_on_timeout(CURLM *multi UNUSED, long timeout_ms, void *arg)
{
    struct sender *sender = arg;

    /* A negative number means no timeout. A timer that runs does no harm then. */
    if (timeout_ms >= 0)
        uv_timer_start(&sender->timer, sender_on_timer, (uint64_t)timeout_ms, 0);
    return 0;
}

static void sender_on_poll_closed(uv_handle_t *poll)
{
    free(poll);
}

/* Without memory the process ends: libcurl could not go on either, and the next process does. */
static uv_poll_t *watch(struct sender *sender, curl_socket_t fd)
{
    uv_poll_t *poll = malloc(sizeof(*poll));

    if (poll == NULL || uv_poll_init(sender->loop, poll, fd) != 0)
        abort();
    poll->data = sender;
    curl_multi_assign(sender->multi, fd, poll);
    return poll;
}

_Static_assert((int)CURL_POLL_IN == UV_READABLE && (int)CURL_POLL_OUT == UV_WRITABLE &&
                   (int)CURL_POLL_INOUT == (UV_READABLE | UV_WRITABLE),
               "libcurl and libuv have the same numbers for events");

static int sender_on_interest(CURL *easy UNUSED, curl_socket_t fd, int what, void *arg,
                              void *known)
{
    struct sender *sender = arg;
    uv_poll_t *poll = known;

    if (what == CURL_POLL_REMOVE) {
        uv_close((uv_handle_t *)poll, sender_on_poll_closed);
        return 0;
    }
    if (poll == NULL)
        poll = watch(sender, fd);
    uv_poll_start(poll, what, sender_on_poll);
    return 0;
}

/* -- transfers -- */

static bool add_header(struct transfer *transfer, const char *name, const char *value)
{
    struct curl_slist *longer = NULL;
    char *line = NULL;

    if (asprintf(&line, "%s: %s", name, value) >= 0) {
        longer = curl_slist_append(transfer->headers, line);
        free(line);
    }
    if (longer != NULL)
        transfer->headers = longer;
    return longer != NULL;
}

static bool add_headers(struct transfer *transfer, const struct sender_message *message)
{
    char timestamp[24];

    snprintf(timestamp, sizeof(timestamp), "%" PRId64, message->timestamp_s);
    return add_header(transfer, "Content-Type", "application/json") &&
           add_header(transfer, "webhook-id", message->id) &&
           add_header(transfer, "webhook-timestamp", timestamp) &&
           add_header(transfer, "webhook-signature", message->signature);
}

#define SET(option, value)                                                               \
    (curl_easy_setopt(transfer->easy, CURLOPT_##option, value) == CURLE_OK)

static bool set_options(struct transfer *transfer, const struct sender_message *message)
{
    /* QUICK_EXIT: otherwise the end of a transfer waits, in the loop, for the thread that resolves
       the name. */
    return SET(URL, message->url) && SET(QUICK_EXIT, 1L) &&
           SET(PROTOCOLS_STR, "http,https") && SET(PROXY, "") && SET(NOSIGNAL, 1L) &&
           SET(USERAGENT, "seckill") && SET(TIMEOUT_MS, (long)message->timeout_ms) &&
           SET(HTTPHEADER, transfer->headers) && SET(COPYPOSTFIELDS, message->body) &&
           SET(OPENSOCKETFUNCTION, sender_on_socket) && SET(OPENSOCKETDATA, transfer) &&
           SET(WRITEFUNCTION, sender_on_answer) && SET(WRITEDATA, transfer) &&
           SET(ERRORBUFFER, transfer->error) && SET(PRIVATE, transfer);
}

struct transfer *sender_post(struct sender *sender, const struct sender_message *message,
                             sender_cb done, void *arg)
{
    struct transfer *transfer = calloc(1, sizeof(*transfer));

    if (transfer == NULL)
        return NULL;
    transfer->sender = sender;
    transfer->done = done;
    transfer->arg = arg;
    transfer->is_https = strncmp(message->url, "https://", strlen("https://")) == 0;
    transfer->easy = curl_easy_init();
    /* Without a handle, the options cannot be set. */
    if (add_headers(transfer, message) && set_options(transfer, message) &&
        curl_multi_add_handle(sender->multi, transfer->easy) == CURLM_OK)
        return transfer;
    transfer_free(transfer);
    return NULL;
}

void sender_cancel(struct transfer *transfer)
{
    if (transfer == NULL)
        return;
    curl_multi_remove_handle(transfer->sender->multi, transfer->easy);
    transfer_free(transfer);
}

/* -- open and close -- */

struct sender *sender_open(uv_loop_t *loop, const struct address_networks *allowed)
{
    struct sender *sender = calloc(1, sizeof(*sender));

    if (sender == NULL)
        return NULL;
    sender->loop = loop;
    sender->allowed = allowed;
    sender->multi = curl_multi_init();
    if (sender->multi == NULL) {
        free(sender);
        return NULL;
    }
    uv_timer_init(loop, &sender->timer);
    sender->timer.data = sender;
    curl_multi_setopt(sender->multi, CURLMOPT_SOCKETFUNCTION, sender_on_interest);
    curl_multi_setopt(sender->multi, CURLMOPT_SOCKETDATA, sender);
    curl_multi_setopt(sender->multi, CURLMOPT_TIMERFUNCTION, sender_on_timeout);
    curl_multi_setopt(sender->multi, CURLMOPT_TIMERDATA, sender);
    return sender;
}

static void sender_on_closed(uv_handle_t *timer)
{
    free(timer->data);
}

void sender_close(struct sender *sender)
{
    if (sender == NULL)
        return;
    curl_multi_cleanup(sender->multi);
    uv_close((uv_handle_t *)&sender->timer, sender_on_closed);
}
