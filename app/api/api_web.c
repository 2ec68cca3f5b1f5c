/*
 * api_web.c - the files of the pages and the API description, embedded in the program.
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

struct http_page **api_web_create(void)
{
    size_t count = 1;

    while (embedded_files[count - 1].path != NULL)
        count++;
    return calloc(count, sizeof(struct http_page *));
}

void api_web_free(struct http_page **pages)
{
    for (size_t i = 0; pages != NULL && embedded_files[i].path != NULL; i++)
        http_page_free(pages[i]);
    free(pages);
}

static const struct {
    const char *ending, *type;
} types[] = {
    {".html", "text/html; charset=utf-8"}, {".js", "text/javascript; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},   {".svg", "image/svg+xml"},
    {".yaml", "application/yaml"},
};

/* Returns the type of a file by the ending of its name. Only the ending and ".gz" have dots. */
static const char *type_of(const char *path)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strstr(path, types[i].ending) != NULL)
            return types[i].type;
    }
    return "application/octet-stream";
}

/* Whether Accept-Encoding lists gzip with a weight above 0. */
static bool accepts_gzip(struct text accepted)
{
    return text_has(accepted, "gzip") &&
           (!text_has(accepted, "gzip;q=0") || text_has(accepted, "gzip;q=0."));
}

static const struct embedded *choose_file(struct http_request *request)
{
    static const char *const files[][2] = {{"/", "/web/shop.html"},
                                           {"/admin", "/web/admin.html"},
                                           {"/docs", "/web/docs.html"},
                                           {"/openapi.yaml", "/api/openapi.yaml"}};
    const char *path = request->path;
    char name[PATH_MAX_BYTES];
    const struct embedded *packed;

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (strcmp(path, files[i][0]) == 0)
            path = files[i][1];
    }
    if (accepts_gzip(http_header(request, "Accept-Encoding", NULL)) &&
        snprintf(name, sizeof(name), "app%s.gz", path) < (int)sizeof(name)) {
        packed = embedded_find(name);
        if (packed != NULL)
            return packed;
    }
    snprintf(name, sizeof(name), "app%s", path);
    return embedded_find(name);
}

static struct http_page *page_create(const struct embedded *file)
{
    char etag[40];
    struct http_reply reply = {.status = 200,
                               .content_type = type_of(file->path),
                               .body = file->bytes,
                               .body_len = (size_t)(file->end - file->bytes)};

    snprintf(etag, sizeof(etag), "\"%s\"", file->tag);
    http_reply_add(&reply, "ETag", etag);
    http_reply_add(&reply, "Cache-Control", "no-cache");
    http_reply_add(&reply, "Vary", "Accept-Encoding");
    if (strstr(file->path, ".gz") != NULL)
        http_reply_add(&reply, "Content-Encoding", "gzip");
    return http_page_create(&reply);
}

/* The settings of the pages, as a module. */
static void answer_settings(struct api_request *request)
{
    char text[64];
    struct http_reply reply = {
        .status = 200,
        .content_type = type_of(request->http->path),
        .body = text,
        .body_len = (size_t)sprintf(text, "export const currency = '%s';\n",
                                    request->api->options.currency)};

    http_reply_add(&reply, "Cache-Control", "no-cache");
    http_answer(request->http, &reply);
}

void api_read_page(struct api_request *request)
{
    const struct embedded *file = choose_file(request->http);
    struct http_page **page;

    if (strcmp(request->http->path, "/web/settings.js") == 0) {
        answer_settings(request);
        return;
    }
    if (file == NULL) {
        api_answer_problem(request, PROBLEM_NOT_FOUND);
        return;
    }
    page = &request->api->web[file - embedded_files];
    if (*page == NULL)
        *page = page_create(file);
    if (*page != NULL)
        http_answer_page(request->http, *page);
    else
        api_answer_problem(request, PROBLEM_OVERLOADED);
}
