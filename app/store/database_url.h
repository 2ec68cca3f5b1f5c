/*
 * database_url.h - checks SECKILL_DATABASE_URL, and splits it into hosts.
 *
 * libpq can try several hosts, but its asynchronous interface has no time limit per host, and
 * resolves names by a call that blocks. So the store itself tries one host after another.
 */
#ifndef DATABASE_URL_H
#define DATABASE_URL_H

#include "base/err.h"

#include <stdbool.h>

/** A host of the URL. An empty field stands for the default of libpq. */
struct database_host {
    char name[256];
    char address[64]; /* numeric */
    char port[16];
};

/**
 * Check a URL. Called before the store or a command connects.
 *
 * @ret_host_count  set on RLOCK_OK, at least 1; may be NULL
 *
 * Returns  RLOCK_OK; RLOCK_INVALID: `reterr` names the setting and shows no part of the
 *          value, because a malformed value may have a password anywhere
 */
MUST_CHECK enum rlock_status database_url_check(const char *url, unsigned *ret_host_count,
                                                struct rlock_err *reterr);

/** Copy the host with this number, from 0, of a URL that has passed the check. Returns false if
 *  memory is out. */
MUST_CHECK bool database_url_host(const char *url, unsigned number,
                                  struct database_host *ret_host);

bool database_host_is_named(const struct database_host *host);

/** Begin to connect to one host of a URL, without blocking. Returns NULL if memory is out, as libpq
 *  does. */
struct pg_conn *database_connect(const char *url, const struct database_host *host);

/* Titles and keys are UTF-8, which a database with another encoding cannot store. */
#define DATABASE_NOT_UTF8 "the encoding of the database is %s; it must be UTF8"

#endif
