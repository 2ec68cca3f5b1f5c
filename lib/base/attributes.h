/* attributes.h - compiler attributes under short names. */
#ifndef BASE_ATTRIBUTES_H
#define BASE_ATTRIBUTES_H

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(format_index, first_index)                                           \
    __attribute__((format(printf, format_index, first_index)))
/* The symbol of an exported function whose name in C lacks the prefix of the library. */
#define SYMBOL(name) __asm__(name)
#define UNUSED       __attribute__((unused))

/* Around the declarations of a header that C++ programs include. */
#ifdef __cplusplus
#define C_DECLARATIONS_BEGIN extern "C" {
#define C_DECLARATIONS_END   }
#else
#define C_DECLARATIONS_BEGIN
#define C_DECLARATIONS_END
#endif

#endif
