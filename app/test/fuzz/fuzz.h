/* fuzz.h - the functions that libFuzzer calls. `make fuzz` builds a program from each fuzz_*.c. */
#ifndef TEST_FUZZ_H
#define TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>

// NOLINTBEGIN(readability-identifier-naming): the names are libFuzzer's
int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
// NOLINTEND(readability-identifier-naming)

#endif
