/* embed.h - files built into the program: the migrations, the API description. */
#ifndef EMBED_H
#define EMBED_H

struct embedded {
    const char *path;  /* as in the source tree, e.g. "sql/001_create_sale.sql" */
    const char *bytes; /* followed by a NUL */
    const char *end;
};

/** Sorted by path; ends with a row whose path is NULL. Static. */
extern const struct embedded embedded_files[];

#endif
