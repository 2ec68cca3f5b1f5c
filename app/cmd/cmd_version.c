/* cmd_version.c - `seckill version`: which program this is, and of what it was made. */
#include "app/cmd/cmd.h"

#include <stdio.h>
#include <string.h>

/* The build gives these for this file alone, by a header; a linter has none. */
#ifndef FACT_COMMIT
#define FACT_COMMIT    "unknown"
#define FACT_LIBRARIES ""
#endif

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

static const char help[] = "usage: seckill version\n"
                           "\n"
                           "Print the version, the commit it was built from, the "
                           "compiler, and the libraries in\n"
                           "the versions that it was compiled against.\n"
                           "\n"
                           "Exit code: 0; 64 when the arguments are not understood.\n";

int cmd_version(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(help, stdout);
        return EXIT_FINE;
    }
    if (argc > 1) {
        fputs(help, stderr);
        return EXIT_USAGE;
    }
    puts("seckill " SECKILL_VERSION "\n"
         "commit " FACT_COMMIT "\n"
         "compiler " COMPILER "\n"
         "libraries" FACT_LIBRARIES);
    return EXIT_FINE;
}
