/*
 * destination.h - the addresses to which webhooks may be sent.
 *
 * A person who adds an endpoint must not reach servers behind the firewall of the shop through it
 * (server-side request forgery). So a webhook goes to public addresses by HTTPS only. An operator can
 * allow other networks, to which webhooks may also be sent by plain HTTP.
 */
#ifndef DESTINATION_H
#define DESTINATION_H

#include "app/http/address.h"

#include <sys/socket.h>

/**
 * Check the address to which a connection is about to be opened.
 *
 * @allowed  networks that an operator has allowed
 *
 * Returns  NULL: the address may be used; otherwise the reason why not
 */
MUST_CHECK const char *destination_check(const struct address_networks *allowed,
                                         const struct sockaddr *address, bool is_https);

#endif
