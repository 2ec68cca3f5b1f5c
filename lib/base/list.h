/*
 * list.h - an intrusive doubly linked list.
 *
 * A struct rlock_link is the head of a list, or a link in a list. After list_init() or
 * list_remove() a link is in no list. To remove a link that is in no list has no effect.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include "base/link.h"

#include <stdbool.h>
#include <stddef.h>

/** Return the struct of type `type` whose member `member` is at `link`. */
/* NOLINTNEXTLINE(readability-identifier-naming): used like a function */
#define list_item(link, type, member)                                                    \
    ((type *)(void *)((char *)(link)-offsetof(type, member)))

/* NOLINTBEGIN(bugprone-macro-parentheses): `type` and `item` form a declaration */
/**
 * Loop over the structs in a list: LIST_EACH(struct call, call, &calls, link) declares
 * `call`. The body may not remove `call` from the list. With LIST_EACH_SAFE the body may
 * remove or free `call`, but not the struct after it.
 */
#define LIST_EACH(type, item, head, member)                                              \
    for (type *item = list_item((head)->next, type, member); &item->member != (head);    \
         item = list_item(item->member.next, type, member))
#define LIST_EACH_SAFE(type, item, head, member)                                         \
    for (type *item = list_item((head)->next, type, member),                             \
              *item##_next = list_item(item->member.next, type, member);                 \
         &item->member != (head);                                                        \
         item = item##_next, item##_next = list_item(item->member.next, type, member))

/** Remove the first struct from the list and run the body with it, until the list is empty. The
 *  body may change the list. */
#define LIST_DRAIN(type, item, head, member)                                             \
    for (type * item; (item = LIST_SHIFT(type, head, member)) != NULL;)

/** Like LIST_DRAIN, but stop after the struct that was the last one at the start. Structs that the
 *  body appends stay in the list. */
#define LIST_DRAIN_PRESENT(type, item, head, member)                                     \
    for (type *item##_last = list_item((head)->prev, type, member),                      \
              *item = LIST_SHIFT(type, head, member);                                    \
         item != NULL;                                                                   \
         item = item == item##_last ? NULL : LIST_SHIFT(type, head, member))
/* NOLINTEND(bugprone-macro-parentheses) */

#define LIST_SHIFT(type, head, member)                                                   \
    (list_is_empty(head) ? NULL : list_item(list_shift(head), type, member))

#define LIST_FIRST(type, head, member)                                                   \
    (list_is_empty(head) ? NULL : list_item((head)->next, type, member))

static inline void list_init(struct rlock_link *list)
{
    list->prev = list->next = list;
}

static inline bool list_is_empty(const struct rlock_link *list)
{
    return list->next == list;
}

static inline size_t list_count(const struct rlock_link *list)
{
    size_t count = 0;

    for (const struct rlock_link *link = list->next; link != list; link = link->next)
        count++;
    return count;
}

/** Insert `link`, which is in no list, after `at`. If `at` is a head, `link` becomes the
 *  first. */
static inline void list_insert_after(struct rlock_link *at, struct rlock_link *link)
{
    link->prev = at;
    link->next = at->next;
    at->next->prev = link;
    at->next = link;
}

static inline void list_append(struct rlock_link *head, struct rlock_link *link)
{
    list_insert_after(head->prev, link);
}

static inline void list_remove(struct rlock_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    list_init(link);
}

static inline struct rlock_link *list_shift(struct rlock_link *head)
{
    struct rlock_link *first = head->next;

    if (first == head)
        return NULL;
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the check ignores the removal */
    list_remove(first);
    return first;
}

/** Move all links of `from` to the end of `to`. */
static inline void list_append_all(struct rlock_link *to, struct rlock_link *from)
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
