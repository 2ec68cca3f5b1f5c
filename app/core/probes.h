/*
 * probes.h - USDT probes of the provider "seckill", for bpftrace and SystemTap.
 *
 * A probe is one instruction that does nothing until a tool attaches to it. A build without
 * <sys/sdt.h> (Debian: systemtap-sdt-dev) or with -DNO_PROBES has no probes. The script
 * app/install/seckill.bt uses the probes.
 *
 *   request_start(request)                    stage(char *name, us, voucher_id)
 *   request_end(request, char *route, status)
 *   batch_sent(voucher_id, orders)            lock_granted(user_id, fence)
 *   batch_committed(voucher_id, orders, us)   lock_lost(user_id)
 */
#ifndef PROBES_H
#define PROBES_H

/* clang-tidy gets no probes, because it would count the branches in their macros. */
#if __has_include(<sys/sdt.h>) && !defined(__clang_analyzer__) && !defined(NO_PROBES)
#define SDT_USE_VARIADIC
#include <sys/sdt.h>
#define PROBE(name, ...) STAP_PROBEV(seckill, name, __VA_ARGS__)
#else
#define PROBE(name, ...) ((void)0)
#endif

#endif
