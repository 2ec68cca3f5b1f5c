/* cmd.h - the commands of the program, one file each. */
#ifndef CMD_H
#define CMD_H

#include "app/core/config.h"

/* Exit codes of all commands; the help of each command states their meaning. */
enum exit_code {
    EXIT_FINE = 0,
    EXIT_BROKEN = 1, /* the command was executed, and its result is negative */
    EXIT_FAILED = 2, /* the command failed */
    EXIT_USAGE = 64, /* invalid arguments or configuration */
};

struct command {
    const char *name; /* the help is help/NAME.txt */
    const char *summary;
    /* argv[0] is the name of the command. Returns the exit code of the process. If it is EXIT_USAGE
       and `reterr` has no text, the arguments are invalid. */
    int (*run)(int argc, char **argv, const struct config *config,
               struct rlock_err *reterr);
    bool reads_config;   /* false: `config` is zeroed */
    bool lists_settings; /* the help lists the settings */
};

extern const struct command command_serve, command_migrate, command_token, command_audit,
    command_lock, command_deliver, command_webhook, command_erase, command_top,
    command_cells, command_version;

static inline int exit_code_of(enum rlock_status status)
{
    return status == RLOCK_OK        ? EXIT_FINE
           : status == RLOCK_INVALID ? EXIT_USAGE
                                     : EXIT_FAILED;
}

#endif
