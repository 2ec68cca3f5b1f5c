/* cmd_script.c - `seckill top` and `seckill cells`: run the scripts of these names from the folder of
   this program. */
#include "app/cmd/cmd.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

static int cmd_script(int argc UNUSED, char **argv, const struct config *config UNUSED,
                      struct rlock_err *reterr)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s-%s", program_invocation_name, argv[0]);
    execvp(path, argv);
    return exit_code_of(
        err_set(reterr, RLOCK_IO, "cannot run %s with Python 3: %m", path));
}

const struct command command_top = {"top", "show the state of a running service",
                                    cmd_script, false, false};
const struct command command_cells = {"cells", "show, migrate, audit and split the cells",
                                      cmd_script, false, false};
