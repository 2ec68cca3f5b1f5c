/*
 * list.h - an intrusive doubly linked list.
 *
 * A struct list is either the head of a ring or a link in one. A link that is in no
 * ring points at itself, so list_remove() may be called on it at any time.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *prev, *next;
};

/** The struct of type `type` whose member `member` is at `link`. */
/* NOLINTNEXTLINE(readability-identifier-naming): reads as the function it stands for */
#define list_item(link, type, member)                                                    \
    ((type *)(void *)((char *)(link)-offsetof(type, member)))

static inline void list_init(struct list *list)
{
    list->prev = list->next = list;
}

static inline bool list_is_empty(const struct list *list)
{
    return list->next == list;
}

static inline void list_append(struct list *head, struct list *link)
{
    link->prev = head->prev;
    link->next = head;
    head->prev->next = link;
    head->prev = link;
}

static inline void list_remove(struct list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    list_init(link);
}

/** The first link, taken out; NULL when the list is empty. */
static inline struct list *list_shift(struct list *head)
{
    struct list *first = head->next;

    if (first == head)
        return NULL;
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it forgets that a freed one has left */
    list_remove(first);
    return first;
}

/** Move all links of `from` behind those of `to`; `from` is empty afterwards. */
static inline void list_append_all(struct list *to, struct list *from)
{
    if (list_is_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    list_init(from);
}

#endif
