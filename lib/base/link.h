/* link.h - a member that links structs into a list; list.h has the functions. */
#ifndef RLOCK_BASE_LINK_H
#define RLOCK_BASE_LINK_H

struct rlock_link {
    struct rlock_link *prev, *next;
};

#endif
