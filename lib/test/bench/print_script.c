/* print_script.c - print the text of a script of the library: print_script NAME */
#include "lock/scripts.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    struct redis_script scripts[RLOCK_SCRIPT_COUNT];

    rlock_scripts_init(scripts, false);
    for (int i = 0; argc == 2 && i < RLOCK_SCRIPT_COUNT; i++) {
        if (strcmp(scripts[i].name, argv[1]) == 0)
            return fputs(scripts[i].body, stdout) < 0;
    }
    fprintf(stderr, "usage: print_script NAME\n");
    return 2;
}
