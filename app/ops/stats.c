/* stats.c - writes stats by XADD once a second, and reads them by XRANGE. */
#include "app/ops/stats.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EVERY_MS     1000
#define KEPT_MS      600000
#define KEPT_KEY_S   "3600" /* lifetime of the stream, renewed by EXPIRE */
#define EXPIRE_EVERY 60
#define ENTRIES_MAX  "6000" /* most entries in an answer: ten minutes of ten instances */
#define INSTANCE_MAX 96

struct stats {
    struct stats_options options;
    uv_timer_t timer;
    struct stats_read add, expire; /* commands that write */
    unsigned writing;
    unsigned count;
    char instance[INSTANCE_MAX]; /* "host/pid" */
};

/* -- publish -- */

/* A failure is ignored, because the next stats follow in a second. */
static void stats_on_written(struct redis_command *command,
                             enum rlock_status status UNUSED,
                             const struct redis_reply *reply UNUSED)
{
    list_item(command, struct stats_read, command)->stats->writing--;
}

static void print_oldest_ms(char text[24])
{
    snprintf(text, 24, "%" PRId64, clock_real_us() / 1000 - KEPT_MS);
}

static void write_words(struct stats *stats, struct redis_command *command,
                        const char *const *words)
{
    if (redis_conn_words(stats->options.conn, command, stats_on_written, words) ==
        RLOCK_OK)
        stats->writing++;
}

static void write_stats(struct stats *stats, const char *text)
{
    static const char *const expire[] = {"EXPIRE", STATS_KEY, KEPT_KEY_S, NULL};
    char oldest_ms[24];
    const char *const add[] = {"XADD", STATS_KEY,       "MINID", "~", oldest_ms,
                               "*",    stats->instance, text,    NULL};

    print_oldest_ms(oldest_ms);
    write_words(stats, &stats->add.command, add);
    if (stats->count++ % EXPIRE_EVERY == 0)
        write_words(stats, &stats->expire.command, expire);
}

static void stats_on_timer(uv_timer_t *timer)
{
    struct stats *stats = timer->data;
    struct text_document document;
    char *text;

    metrics_note_conditions(stats->options.all_metrics, clock_real_us() / 1000);
    if (stats->writing > 0 || !redis_conn_is_up(stats->options.conn) ||
        !text_document_begin(&document))
        return;
    metrics_print_stats(document.out, stats->options.all_metrics);
    text = text_document_end(&document);
    if (text != NULL)
        write_stats(stats, text);
    free(text);
}

/* -- read -- */

static bool answer_begin(struct text_document *document, bool is_shared)
{
    if (!text_document_begin(document))
        return false;
    fprintf(document->out, "{\"now_ms\":%" PRId64 ",\"is_shared\":%s,",
            clock_real_us() / 1000, is_shared ? "true" : "false");
    metrics_print_bounds(document->out);
    fputs(",\"items\":[", document->out);
    return true;
}

/* Copies the entry unchecked, because only instances of the service can write to its Redis. */
static void print_entry(FILE *out, const struct redis_reply *entry, bool is_first)
{
    const struct redis_reply *fields = redis_reply_at(entry, 1);
    const char *id = redis_reply_text(redis_reply_at(entry, 0), NULL);
    const char *instance = redis_reply_text(redis_reply_at(fields, 0), NULL);
    const char *text = redis_reply_text(redis_reply_at(fields, 1), NULL);

    if (id == NULL || instance == NULL || text == NULL)
        return;
    fprintf(out, "%s[\"%s\",\"%s\",%s]", is_first ? "" : ",", id, instance, text);
}

static void stats_on_reply(struct redis_command *command, enum rlock_status status,
                           const struct redis_reply *reply)
{
    struct stats_read *read = list_item(command, struct stats_read, command);
    struct text_document document;
    const struct redis_reply *entry;

    if (status != RLOCK_OK) {
        read->done(read, stats_print_own(read->stats));
        return;
    }
    if (!answer_begin(&document, true)) {
        read->done(read, NULL);
        return;
    }
    for (size_t i = 0; (entry = redis_reply_at(reply, i)) != NULL; i++)
        print_entry(document.out, entry, i == 0);
    fputs("]}", document.out);
    read->done(read, text_document_end(&document));
}

enum rlock_status stats_read(struct stats *stats, const char *after,
                             struct stats_read *read,
                             void (*done)(struct stats_read *read, char *text))
{
    char from[STATS_ID_BYTES + 24];
    const char *const words[] = {"XRANGE", STATS_KEY,   from, "+",
                                 "COUNT",  ENTRIES_MAX, NULL};

    if (after[0] != '\0')
        snprintf(from, sizeof(from), "(%s", after);
    else
        print_oldest_ms(from);
    read->stats = stats;
    read->done = done;
    return redis_conn_words(stats->options.conn, &read->command, stats_on_reply, words);
}

char *stats_print_own(struct stats *stats)
{
    struct text_document document;

    if (!answer_begin(&document, false))
        return NULL;
    fprintf(document.out, "[\"%" PRId64 "-0\",\"%s\",", clock_real_us() / 1000,
            stats->instance);
    metrics_print_stats(document.out, stats->options.all_metrics);
    fputs("]]}", document.out);
    return text_document_end(&document);
}

/* -- open and close -- */

struct stats *stats_open(const struct stats_options *options)
{
    struct stats *stats = calloc(1, sizeof(*stats));
    char host[64] = "";

    if (stats == NULL)
        return NULL;
    stats->options = *options;
    stats->add.stats = stats->expire.stats = stats;
    if (gethostname(host, sizeof(host) - 1) != 0 || strpbrk(host, "\"\\") != NULL)
        host[0] = '\0'; /* the name would need escapes in JSON */
    snprintf(stats->instance, INSTANCE_MAX, "%s/%d", host[0] != '\0' ? host : "instance",
             (int)getpid());
    uv_timer_init(options->loop, &stats->timer);
    stats->timer.data = stats;
    if (options->is_publisher)
        uv_timer_start(&stats->timer, stats_on_timer, EVERY_MS, EVERY_MS);
    return stats;
}

static void stats_on_closed(uv_handle_t *timer)
{
    free(timer->data);
}

void stats_close(struct stats *stats)
{
    if (stats != NULL)
        uv_close((uv_handle_t *)&stats->timer, stats_on_closed);
}
