/*
 * replay.c - gives each file of a directory to a fuzzer, without libFuzzer.
 *
 * replay_NAME DIRECTORY
 */
#include "app/test/fuzz/fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_MAX 65536

#pragma weak LLVMFuzzerInitialize /* some fuzzers do not define this function */

static int fail(const char *path)
{
    perror(path);
    return 1;
}

static int replay(const char *directory, const char *name)
{
    static uint8_t text[INPUT_MAX];
    char path[512];
    FILE *file;
    uint8_t *data;
    size_t size;
    int code;

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    file = fopen(path, "re");
    if (file == NULL)
        return fail(path);
    size = fread(text, 1, sizeof(text), file);
    fclose(file);
    /* The block has exactly the size of the input, so that a sanitizer finds a read past the
       end. */
    data = malloc(size + (size == 0));
    if (data == NULL)
        return fail(path);
    memcpy(data, text, size);
    fprintf(stderr, "%s\n", path);
    code = LLVMFuzzerTestOneInput(data, size);
    free(data);
    return code;
}

int main(int argc, char **argv)
{
    struct dirent **entries;
    int count, code = 0;

    if (argc != 2)
        return fail("usage: replay_NAME DIRECTORY");
    if (LLVMFuzzerInitialize != NULL)
        LLVMFuzzerInitialize(&argc, &argv);
    count = scandir(argv[1], &entries, NULL, alphasort);
    if (count <= 2) /* only "." and ".." */
        return fail(argv[1]);
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.')
            code |= replay(argv[1], entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return code;
}
