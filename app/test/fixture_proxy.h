/*
 * fixture_proxy.h - a TCP proxy between a service and one of its servers that can lose an
 * answer: what was asked is done, and nobody is told.
 *
 * It runs as a process of its own, which ends with the test program.
 */
#ifndef TEST_FIXTURE_PROXY_H
#define TEST_FIXTURE_PROXY_H

#include "app/test/fixture.h"

struct proxy {
    pid_t pid;
    int *drops; /* shared with it */
};

/**
 * Stand in front of the server that `url` names.
 *
 * @ret_url  the same URL with the proxy's address; `size` bytes
 */
void proxy_start(struct proxy *proxy, const char *url, char *ret_url, size_t size);
void proxy_stop(struct proxy *proxy);

/** The next `count` answers are thrown away, each with its connection. */
void proxy_drop(struct proxy *proxy, int count);

#endif
