/*
 * fixture_proxy.h - a TCP proxy between a service and one of its servers.
 *
 * The proxy can lose an answer: the server executes the command, and the service gets no reply. The
 * proxy runs as a process of its own, which ends with the test program.
 */
#ifndef TEST_FIXTURE_PROXY_H
#define TEST_FIXTURE_PROXY_H

#include "app/test/fixture.h"

struct proxy {
    pid_t pid;
    int *drops;
};

/**
 * Start a proxy for the server that `url` names.
 *
 * @ret_url  the same URL with the address of the proxy; `size` bytes
 */
void proxy_start(struct proxy *proxy, const char *url, char *ret_url, size_t size);
void proxy_stop(struct proxy *proxy);

void proxy_drop(struct proxy *proxy, int count);

#endif
