/* cmd.h - the commands of the program, one file each. */
#ifndef CMD_H
#define CMD_H

/* Exit codes of all commands; the --help of each command states their meaning. */
enum exit_code {
    EXIT_FINE = 0,
    EXIT_BROKEN = 1, /* the command succeeded, with a negative result */
    EXIT_FAILED = 2, /* the command failed */
    EXIT_USAGE = 64, /* invalid arguments or configuration */
};

/* argv[0] is the command's name. Each returns the exit code of the process. */
int cmd_serve(int argc, char **argv);
int cmd_migrate(int argc, char **argv);
int cmd_token(int argc, char **argv);
int cmd_audit(int argc, char **argv);
int cmd_lock(int argc, char **argv);
int cmd_version(int argc, char **argv);

#endif
