/* address.c - getaddrinfo in a thread: hiredis would block the loop on a slow server. */
#include "redis/address.h"

#include <netdb.h>

#define ADDRESSES_MAX 60 /* of one name; divisible by any small number of addresses */

bool redis_address_is_numeric(const char *name)
{
    struct sockaddr_storage unused;

    return uv_ip4_addr(name, 0, (struct sockaddr_in *)&unused) == 0 ||
           uv_ip6_addr(name, 0, (struct sockaddr_in6 *)&unused) == 0;
}

static const struct addrinfo *choose(const struct addrinfo *first, unsigned attempt)
{
    const struct addrinfo *at = first;

    for (unsigned i = attempt % ADDRESSES_MAX; i > 0; i--)
        at = at->ai_next == NULL ? first : at->ai_next;
    return at;
}

static void resolver_on_found(uv_getaddrinfo_t *request, int failure,
                              struct addrinfo *found)
{
    struct redis_resolver *resolver = request->data;
    const char *reason = failure == 0 ? "" : uv_strerror(failure);
    char ip[NI_MAXHOST];
    struct err err = {0};

    resolver->is_running = false;
    if (failure == 0) {
        const struct addrinfo *address = choose(found, resolver->attempt);

        failure = getnameinfo(address->ai_addr, address->ai_addrlen, ip, sizeof(ip), NULL,
                              0, NI_NUMERICHOST);
        reason = gai_strerror(failure);
    }
    uv_freeaddrinfo(found);
    err_set(&err, STATUS_IO, "resolve %s: %s", resolver->name, reason);
    resolver->done(failure == 0 ? ip : NULL, &err, resolver->arg);
}

enum status redis_resolver_start(struct redis_resolver *resolver, uv_loop_t *loop,
                                 const char *name, unsigned attempt, struct err *reterr)
{
    static const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                          .ai_socktype = SOCK_STREAM};
    int failure;

    resolver->request.data = resolver;
    resolver->name = name;
    resolver->attempt = attempt;
    failure =
        uv_getaddrinfo(loop, &resolver->request, resolver_on_found, name, NULL, &hints);
    if (failure != 0)
        return err_set(reterr, STATUS_IO, "resolve %s: %s", name, uv_strerror(failure));
    resolver->is_running = true;
    return STATUS_OK;
}
