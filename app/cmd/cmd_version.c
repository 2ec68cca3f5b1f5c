/* cmd_version.c - `seckill version`: prints the version and the build environment. */
#include "app/cmd/cmd.h"

#include <stdio.h>

/* The build defines these macros for this file. A linter does not define them. */
#ifndef FACT_COMMIT
#define FACT_COMMIT    "unknown"
#define FACT_LIBRARIES ""
#endif

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

static int cmd_version(int argc, char **argv UNUSED, const struct config *config UNUSED,
                       struct rlock_err *reterr UNUSED)
{
    if (argc > 1)
        return EXIT_USAGE;
    puts("seckill " SECKILL_VERSION "\n"
         "commit " FACT_COMMIT "\n"
         "compiler " COMPILER "\n"
         "libraries" FACT_LIBRARIES);
    return EXIT_FINE;
}

const struct command command_version = {
    "version", "print the version and the build environment", cmd_version, false, false};
