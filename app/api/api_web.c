/*
 * api_web.c - the files of the pages, embedded in the program.
 *
 * A browser revalidates each file at each use and gets 304 while it is unchanged, so an
 * upgrade never combines an old script with a new page.
 */
#include "app/api/api_routes.h"
#include "app/core/embed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_MAX_BYTES 100

/* Rendered at first use: with status 200, and 304. */
struct api_web_page {
    struct http_page *full, *not_modified;
};

struct api_web_page *api_web_create(void)
{
    size_t count = 1;

    while (embedded_files[count - 1].path != NULL)
        count++;
    return calloc(count, sizeof(struct api_web_page));
}

void api_web_free(struct api_web_page *pages)
{
    for (size_t i = 0; pages != NULL && embedded_files[i].path != NULL; i++) {
        http_page_free(pages[i].full);
        http_page_free(pages[i].not_modified);
    }
    free(pages);
}

static const struct {
    const char *ending, *type;
} types[] = {
    {".html", "text/html; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".svg", "image/svg+xml"},
};

static bool ends_with(const char *text, size_t len, const char *ending)
{
    size_t ending_len = strlen(ending);

    return len >= ending_len && memcmp(text + len - ending_len, ending, ending_len) == 0;
}

static const char *type_of(const char *path)
{
    size_t len = strlen(path);

    if (ends_with(path, len, ".gz"))
        len -= strlen(".gz");
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (ends_with(path, len, types[i].ending))
            return types[i].type;
    }
    return "application/octet-stream";
}

/* NULL: not found. */
static const struct embedded *find_file(const char *path)
{
    for (const struct embedded *file = embedded_files; file->path != NULL; file++) {
        if (strcmp(file->path, path) == 0)
            return file;
    }
    return NULL;
}

/* Whether Accept-Encoding lists gzip with a weight above 0. */
static bool accepts_gzip(struct text accepted)
{
    static const char gzip[] = "gzip";
    static const char refused[] = "gzip;q=0";
    const char *found = accepted.bytes == NULL
                            ? NULL
                            : memmem(accepted.bytes, accepted.len, gzip, strlen(gzip));
    size_t left = found == NULL ? 0 : accepted.len - (size_t)(found - accepted.bytes);
    size_t refused_len = strlen(refused);

    if (found == NULL)
        return false;
    return left < refused_len || memcmp(found, refused, refused_len) != 0 ||
           (left > refused_len && found[refused_len] == '.');
}

static const struct embedded *choose_file(struct http_request *request)
{
    const char *path = http_path(request);
    char name[PATH_MAX_BYTES];
    const struct embedded *packed;

    if (strcmp(path, "/") == 0)
        path = "/web/shop.html";
    else if (strcmp(path, "/admin") == 0)
        path = "/web/admin.html";
    if (accepts_gzip(http_header(request, "Accept-Encoding", NULL)) &&
        snprintf(name, sizeof(name), "app%s.gz", path) < (int)sizeof(name)) {
        packed = find_file(name);
        if (packed != NULL)
            return packed;
    }
    snprintf(name, sizeof(name), "app%s", path);
    return find_file(name);
}

static struct http_page *page_create(const struct embedded *file, bool not_modified)
{
    char etag[40];
    struct http_reply reply = {.status = 304, .body = ""};

    snprintf(etag, sizeof(etag), "\"%s\"", file->tag);
    reply.headers[reply.header_count++] = (struct http_reply_header){"ETag", etag};
    reply.headers[reply.header_count++] =
        (struct http_reply_header){"Cache-Control", "no-cache"};
    reply.headers[reply.header_count++] =
        (struct http_reply_header){"Vary", "Accept-Encoding"};
    if (!not_modified) {
        reply.status = 200;
        reply.content_type = type_of(file->path);
        reply.body = file->bytes;
        reply.body_len = (size_t)(file->end - file->bytes);
        if (ends_with(file->path, strlen(file->path), ".gz"))
            reply.headers[reply.header_count++] =
                (struct http_reply_header){"Content-Encoding", "gzip"};
    }
    return http_page_create(&reply);
}

/* The compressed and the plain bytes of a file have different tags. */
static bool is_unchanged(struct http_request *request, const struct embedded *file)
{
    struct text known = http_header(request, "If-None-Match", NULL);

    return known.bytes != NULL &&
           memmem(known.bytes, known.len, file->tag, strlen(file->tag)) != NULL;
}

void api_read_page(struct api_request *request)
{
    const struct embedded *file = choose_file(request->http);
    struct api_web_page *pages;
    struct http_page **page;
    bool not_modified;

    if (file == NULL) {
        api_answer_problem(request, PROBLEM_NOT_FOUND);
        return;
    }
    pages = &request->api->web[file - embedded_files];
    not_modified = is_unchanged(request->http, file);
    page = not_modified ? &pages->not_modified : &pages->full;
    if (*page == NULL)
        *page = page_create(file, not_modified);
    if (*page != NULL)
        http_answer_page(request->http, *page);
    else
        api_answer_problem(request, PROBLEM_OVERLOADED);
}
