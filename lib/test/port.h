/* port.h - ports for the servers of tests. */
#ifndef TEST_PORT_H
#define TEST_PORT_H

#include <stdint.h>

uint16_t port_free(void);

#endif
