/* main.c - runs the command that the first argument names. */
#include "app/cmd/cmd.h"
#include "app/core/embed.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct command *const commands[] = {
    &command_serve, &command_migrate, &command_token,   &command_audit,
    &command_lock,  &command_deliver, &command_webhook, &command_erase,
    &command_top,   &command_cells,   &command_version};
#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static int print_usage(FILE *out, int code)
{
    fputs("usage: seckill COMMAND [ARGUMENT ...]\n\n", out);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-8s  %s\n", commands[i]->name, commands[i]->summary);
    fputs(
        "\n`seckill --version` is `seckill version`."
        "\nSee `seckill COMMAND --help`, and `seckill serve --help` for the settings.\n",
        out);
    return code;
}

/* Opens the standard descriptors that the caller has closed. Otherwise a file or a socket could get
   the number of standard output, and receive the output. Returns false if there is no /dev/null. */
static bool open_standard_files(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            return false;
    }
    return true;
}

static void print_help(FILE *out, const struct command *command)
{
    char path[64];

    snprintf(path, sizeof(path), "app/cmd/help/%s.txt", command->name);
    fputs(embedded_find(path)->bytes, out);
}

static int run(const struct command *command, int argc, char **argv)
{
    struct config config = {0};
    struct rlock_err err = {0};
    int code = EXIT_USAGE;

    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        print_help(stdout, command);
        if (command->lists_settings)
            config_print(stdout);
        return EXIT_FINE;
    }
    if (!command->reads_config || config_read(&config, &err) == RLOCK_OK)
        code = command->run(argc, argv, &config, &err);
    config_clear(&config);
    if (code == EXIT_USAGE && err.text[0] == '\0')
        print_help(stderr, command);
    else if (code == EXIT_FAILED || (code != EXIT_FINE && err.text[0] != '\0'))
        fprintf(stderr, "seckill %s: %s\n", command->name,
                err.text[0] != '\0' ? err.text : "out of memory");
    return code;
}

int main(int argc, char **argv)
{
    if (!open_standard_files())
        return EXIT_FAILED;
    if (argc < 2)
        return print_usage(stderr, EXIT_USAGE);
    if (strcmp(argv[1], "--version") == 0)
        return run(&command_version, argc - 1, argv + 1);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(argv[1], commands[i]->name) == 0)
            return run(commands[i], argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "--help") == 0)
        return print_usage(stdout, EXIT_FINE);
    fprintf(stderr, "seckill: unknown command \"%s\"\n\n", argv[1]);
    return print_usage(stderr, EXIT_USAGE);
}
