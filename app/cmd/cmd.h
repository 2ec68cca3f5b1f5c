/* cmd.h - the commands of the program, one file each. */
#ifndef CMD_H
#define CMD_H

/* Exit codes that all commands share; each command's --help states its own beside them.
 */
enum exit_code {
    EXIT_FINE = 0,
    EXIT_BROKEN = 1, /* the command did its work and the answer is bad */
    EXIT_FAILED = 2, /* the command could not do its work */
    EXIT_USAGE = 64, /* arguments or configuration not understood */
};

/* argv[0] is the command's name. Each returns the exit code of the process. */
int cmd_serve(int argc, char **argv);
int cmd_migrate(int argc, char **argv);
int cmd_token(int argc, char **argv);
int cmd_audit(int argc, char **argv);
int cmd_lock(int argc, char **argv);
int cmd_version(int argc, char **argv);

#endif
