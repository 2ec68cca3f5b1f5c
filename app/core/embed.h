/* embed.h - files that are built into the program: SQL, the API description, the pages. */
#ifndef EMBED_H
#define EMBED_H

struct embedded {
    const char *path; /* path in the source tree, e.g. "sql/functions/place_orders.sql" */
    const char *tag;  /* hex digits: a hash of the bytes */
    const char *bytes; /* followed by a NUL */
    const char *end;
};

/** All files, with the migrations in sequence. A row whose path is NULL ends the array. */
extern const struct embedded embedded_files[];

const struct embedded *embedded_find(const char *path);

#endif
