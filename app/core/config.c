/* config.c - reads the values of the settings. */
#include "app/core/config.h"

#include "app/core/currency.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHOICES_MAX    4
#define FILE_BYTES_MAX 65536
#define NAME_BYTES_MAX 40

enum kind { KIND_TEXT, KIND_FILE, KIND_SECRET, KIND_NUMBER, KIND_CHOICE };

static const struct setting {
    const char *name;
    enum kind kind;
    size_t offset;
    const char *fallback; /* the default, as it would be in the environment */
    const char *help;
    int64_t min, max;
    const char *choices[CHOICES_MAX + 1]; /* ends with NULL */
} settings[] = {
/* clang-format off */
#define AT(field) offsetof(struct config, field)
#define TEXT(name, field, fallback, help)             {name, KIND_TEXT, AT(field), fallback, help, 0, 0, {0}},
#define PATH(name, field, help)                       {name, KIND_FILE, AT(field), "", help, 0, 0, {0}},
#define SECRET(name, field, help)                     {name, KIND_SECRET, AT(field), "", help, 0, 0, {0}},
#define NUMBER(name, field, fallback, min, max, help) {name, KIND_NUMBER, AT(field), fallback, help, min, max, {0}},
#define CHOICE(name, field, fallback, help, ...)      {name, KIND_CHOICE, AT(field), fallback, help, 0, 0, {__VA_ARGS__, NULL}},
    CONFIG_SETTINGS(TEXT, PATH, SECRET, SECRET, NUMBER, CHOICE)
};
/* clang-format on */
#define SETTING_COUNT (sizeof(settings) / sizeof(settings[0]))

/* -- names -- */

static size_t likeness(const char *a, const char *b)
{
    size_t a_len = strlen(a), b_len = strlen(b), begin = 0, end = 0;

    while (a[begin] != '\0' && a[begin] == b[begin])
        begin++;
    while (end < MIN(a_len, b_len) && a[a_len - 1 - end] == b[b_len - 1 - end])
        end++;
    return begin + end;
}

static const char *nearest_name(const char *word)
{
    const struct setting *nearest = &settings[0];

    for (const struct setting *setting = settings; setting < settings + SETTING_COUNT;
         setting++) {
        if (likeness(word, setting->name) > likeness(word, nearest->name))
            nearest = setting;
    }
    return nearest->name;
}

/* Refuses unknown names, because the setting of a misspelt name would silently keep its default.
   The message does not show the value, which may be a secret. */
static enum rlock_status check_names(struct rlock_err *reterr)
{
    static const char ours[] = "SECKILL_", of_tests[] = "SECKILL_TEST_";
    char name[2 * NAME_BYTES_MAX];

    for (char **entry = environ; *entry != NULL; entry++) {
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(*entry, "="), *entry);
        if (strncmp(name, ours, strlen(ours)) == 0 &&
            strncmp(name, of_tests, strlen(of_tests)) != 0 &&
            strcmp(name, nearest_name(name)) != 0)
            return err_set(reterr, RLOCK_INVALID,
                           "%s is unknown; the most similar setting is %s", name,
                           nearest_name(name));
    }
    return RLOCK_OK;
}

/* -- values -- */

bool config_is_blank(const char *text)
{
    return text[strspn(text, " \t\r\n")] == '\0';
}

static void format_allowed(const struct setting *setting, char *text, size_t size)
{
    text[0] = '\0';
    if (setting->kind == KIND_NUMBER)
        snprintf(text, size, "%lld..%lld", (long long)setting->min,
                 (long long)setting->max);
    if (setting->kind == KIND_FILE || setting->kind == KIND_SECRET)
        snprintf(text, size, "file path");
    for (int i = 0; setting->choices[i] != NULL; i++) {
        size_t used = strlen(text);

        snprintf(text + used, size - used, "%s%s", i > 0 ? ", " : "",
                 setting->choices[i]);
    }
}

static enum rlock_status read_number(const struct setting *setting, const char *value,
                                     int64_t *ret_number, struct rlock_err *reterr)
{
    char *end;
    /* If a number is too long for strtoll(), the result is INT64_MIN or INT64_MAX, which is out of
       range. */
    long long number = strtoll(value, &end, 10);

    if (strspn(value, "-0123456789") != strlen(value) || *end != '\0' ||
        number < setting->min || number > setting->max)
        return err_set(reterr, RLOCK_INVALID, "%s is \"%s\"; allowed are %lld to %lld",
                       setting->name, value, (long long)setting->min,
                       (long long)setting->max);
    *ret_number = number;
    return RLOCK_OK;
}

static enum rlock_status read_choice(const struct setting *setting, const char *value,
                                     int64_t *ret_number, struct rlock_err *reterr)
{
    char allowed[100];

    for (int i = 0; setting->choices[i] != NULL; i++) {
        if (strcmp(value, setting->choices[i]) == 0) {
            *ret_number = i;
            return RLOCK_OK;
        }
    }
    format_allowed(setting, allowed, sizeof(allowed));
    return err_set(reterr, RLOCK_INVALID, "%s is \"%s\"; allowed are %s", setting->name,
                   value, allowed);
}

/* Refuses a file to which users other than its owner may write, and notes a secret that everybody
   may read. Only regular files are checked, because the mode of a pipe does not say who could read
   its text. */
static enum rlock_status check_mode(const struct setting *setting, const char *path,
                                    FILE *file, struct config *config,
                                    struct rlock_err *reterr)
{
    struct stat info;

    if (fstat(fileno(file), &info) != 0 || !S_ISREG(info.st_mode))
        return RLOCK_OK;
    if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return err_set(
            reterr, RLOCK_INVALID,
            "%s is \"%s\"; its mode is %04o, but only its owner may write to it: "
            "chmod go-w",
            setting->name, path, (unsigned)info.st_mode & 07777);
    if (setting->kind == KIND_SECRET && (info.st_mode & S_IROTH) != 0)
        config->exposed[config->exposed_count++] = setting->name;
    return RLOCK_OK;
}

static enum rlock_status read_file(const struct setting *setting, const char *path,
                                   struct config *config, struct rlock_err *reterr)
{
    FILE *file = fopen(path, "re");
    enum rlock_status status;
    char *text = NULL;
    size_t len;

    if (file == NULL)
        return err_set(reterr, RLOCK_INVALID, "%s is \"%s\"; cannot read it: %m",
                       setting->name, path);
    status = check_mode(setting, path, file, config, reterr);
    if (status != RLOCK_OK) {
        fclose(file);
        return status;
    }
    text = malloc(FILE_BYTES_MAX + 1);
    len = text == NULL ? 0 : fread(text, 1, FILE_BYTES_MAX + 1, file);
    fclose(file);
    if (len == 0 || len > FILE_BYTES_MAX) {
        free(text);
        return err_set(reterr, RLOCK_INVALID,
                       "%s is \"%s\"; allowed is a file of 1 to %d bytes", setting->name,
                       path, FILE_BYTES_MAX);
    }
    assert(config->file_count < CONFIG_FILES_MAX);
    config->files[config->file_count++] = text;
    if (memchr(text, '\0', len) != NULL)
        return err_set(reterr, RLOCK_INVALID, "%s is \"%s\"; the file has a NUL byte",
                       setting->name, path);
    text[len] = '\0';
    if (config_is_blank(text))
        return err_set(reterr, RLOCK_INVALID, "%s is \"%s\"; the file is blank",
                       setting->name, path);
    while (text[len - 1] == '\n' || text[len - 1] == '\r')
        text[--len] = '\0';
    *(const char **)((char *)config + setting->offset) = text;
    return RLOCK_OK;
}

/* Reads a file into the field of its setting. If a secret may be given as a text or as a file, two
   settings share one field. The setting for the file then follows the setting for the text. */
static enum rlock_status read_path(const struct setting *setting, const char *path,
                                   struct config *config, struct rlock_err *reterr)
{
    const char **field = (const char **)((char *)config + setting->offset);

    if (*field == NULL)
        *field = "";
    if (path[0] == '\0')
        return RLOCK_OK;
    if ((*field)[0] != '\0')
        return err_set(reterr, RLOCK_INVALID, "%s is \"%s\"; allowed only without %s",
                       setting->name, path, setting[-1].name);
    return read_file(setting, path, config, reterr);
}

static enum rlock_status read_setting(const struct setting *setting,
                                      struct config *config, struct rlock_err *reterr)
{
    void *field = (char *)config + setting->offset;
    const char *value = getenv(setting->name); // NOLINT(concurrency-mt-unsafe): constant

    if (value == NULL || value[0] == '\0')
        value = setting->fallback;
    switch (setting->kind) {
    case KIND_NUMBER:
        return read_number(setting, value, field, reterr);
    case KIND_CHOICE:
        return read_choice(setting, value, field, reterr);
    case KIND_FILE:
    case KIND_SECRET:
        return read_path(setting, value, config, reterr);
    case KIND_TEXT:
        if (value[0] != '\0' && config_is_blank(value))
            return err_set(reterr, RLOCK_INVALID, "%s is blank", setting->name);
        *(const char **)field = value;
    }
    return RLOCK_OK;
}

enum rlock_status config_read(struct config *ret_config, struct rlock_err *reterr)
{
    struct config config = {.file_count = 0};
    enum rlock_status status = check_names(reterr);

    for (size_t i = 0; status == RLOCK_OK && i < SETTING_COUNT; i++)
        status = read_setting(&settings[i], &config, reterr);
    if (status == RLOCK_OK && (config.tls_cert[0] == '\0') != (config.tls_key[0] == '\0'))
        status = err_set(reterr, RLOCK_INVALID,
                         "SECKILL_TLS_%s_FILE is not set; SECKILL_TLS_CERT_FILE and "
                         "SECKILL_TLS_KEY_FILE are allowed only together",
                         config.tls_cert[0] == '\0' ? "CERT" : "KEY");
    if (status == RLOCK_OK && !currency_is_known(config.currency))
        status = err_set(reterr, RLOCK_INVALID,
                         "SECKILL_CURRENCY is \"%s\"; allowed are ISO 4217 codes of "
                         "currencies in use, such as CNY or EUR",
                         config.currency);
    if (status == RLOCK_OK)
        *ret_config = config;
    else
        config_clear(&config);
    return status;
}

void config_clear(struct config *config)
{
    for (size_t i = 0; i < config->file_count; i++)
        free(config->files[i]);
    *config = (struct config){.file_count = 0};
}

void config_print(FILE *out)
{
    char allowed[100];

    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const struct setting *setting = &settings[i];
        const char *fallback = setting->fallback;

        format_allowed(setting, allowed, sizeof(allowed));
        fprintf(out, "  %s%s%s%s%s%s%s\n      %s\n", setting->name,
                fallback[0] ? " (" : "", fallback, fallback[0] ? ")" : "",
                allowed[0] ? "  [" : "", allowed, allowed[0] ? "]" : "", setting->help);
    }
}
