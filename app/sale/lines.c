/* lines.c - the lines by voucher, and the ring of those that could send. */
#include "app/sale/lines.h"

#include <stdlib.h>

void lines_init(struct lines *lines)
{
    *lines = (struct lines){0};
    list_init(&lines->ring);
    list_init(&lines->free);
}

void lines_clear(struct lines *lines)
{
    struct list *link;

    while ((link = list_shift(&lines->free)) != NULL)
        free(list_item(link, struct line, ring));
    idmap_clear(&lines->map);
}

struct line *lines_get(struct lines *lines, int64_t voucher_id)
{
    struct line *line = idmap_get(&lines->map, voucher_id);
    struct list *link;

    if (line != NULL)
        return line;
    link = list_shift(&lines->free);
    line = link != NULL ? list_item(link, struct line, ring) : malloc(sizeof(*line));
    if (line == NULL)
        return NULL;
    *line = (struct line){.voucher_id = voucher_id};
    list_init(&line->ring);
    list_init(&line->items);
    list_init(&line->halves);
    if (idmap_put(&lines->map, voucher_id, line))
        return line;
    free(line);
    return NULL;
}

void lines_settle(struct lines *lines, struct line *line)
{
    bool has_work = !list_is_empty(&line->items) || !list_is_empty(&line->halves);

    if (line->is_busy)
        return;
    if (has_work && list_is_empty(&line->ring))
        list_append(&lines->ring, &line->ring);
    if (has_work)
        return;
    list_remove(&line->ring);
    idmap_remove(&lines->map, line->voucher_id);
    list_append(&lines->free, &line->ring);
}

struct line *lines_next(struct lines *lines)
{
    struct list *link = list_shift(&lines->ring);

    return link != NULL ? list_item(link, struct line, ring) : NULL;
}
