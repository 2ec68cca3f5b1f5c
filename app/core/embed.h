/* embed.h - files built into the program: the migrations, the API description, the pages.
 */
#ifndef EMBED_H
#define EMBED_H

struct embedded {
    const char *path;  /* as in the source tree, e.g. "sql/001_create_sale.sql" */
    const char *tag;   /* hex digits that differ when the bytes do */
    const char *bytes; /* followed by a NUL */
    const char *end;
};

/** The migrations sorted; ends with a row whose path is NULL. Static. */
extern const struct embedded embedded_files[];

#endif
