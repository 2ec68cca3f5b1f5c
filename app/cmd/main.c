/* main.c - runs the command that the first argument names. */
#include "app/cmd/cmd.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    {"serve", cmd_serve, "run the order service until SIGTERM or SIGINT"},
    {"migrate", cmd_migrate, "bring the database schema up to this version"},
    {"token", cmd_token, "make bearer tokens for development and load tests"},
    {"audit", cmd_audit, "check that nothing was oversold or sold twice"},
    {"lock", cmd_lock, "show or force-release a lock"},
    {"version", cmd_version, "print the version and the build environment"},
};
#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static void print_usage(FILE *out)
{
    fputs("usage: seckill COMMAND [ARGUMENT ...]\n\n", out);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-8s  %s\n", commands[i].name, commands[i].help);
    fputs(
        "\nSee `seckill COMMAND --help` for details. The configuration is read from the\n"
        "environment: see `seckill serve --help`.\n",
        out);
}

/* A descriptor that the caller has closed would be reused by the next file or socket, which
   would then receive what is printed. False: there is no /dev/null. */
static bool open_standard_files(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    if (!open_standard_files())
        return EXIT_FAILED;
    if (argc < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "--help") == 0) {
        print_usage(stdout);
        return EXIT_FINE;
    }
    fprintf(stderr, "seckill: unknown command \"%s\"\n\n", argv[1]);
    print_usage(stderr);
    return EXIT_USAGE;
}
