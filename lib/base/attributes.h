/* attributes.h - compiler attributes under short names. */
#ifndef BASE_ATTRIBUTES_H
#define BASE_ATTRIBUTES_H

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(format_index, first_index)                                           \
    __attribute__((format(printf, format_index, first_index)))
#define UNUSED __attribute__((unused))

#endif
