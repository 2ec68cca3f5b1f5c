/* test_config.c - settings from the environment and from files. */
#include "app/core/config.h"
#include "app/core/text.h"
#include "test/case_list.h"
#include "test/torture.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX 65536

static char path[] = "/tmp/test_config.XXXXXX";

static int setup(void **state UNUSED)
{
    int fd = mkstemp(path);

    return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state UNUSED)
{
    return unlink(path);
}

// NOLINTBEGIN(concurrency-mt-unsafe): no threads in this program
static int clear(void **state UNUSED)
{
    return clearenv();
}

#define CASE(name) DEFINE_CASE(name, name, clear, NULL, NULL)

static void write_file(const char *text, size_t len, mode_t mode)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    for (size_t i = 0; i < len; i++)
        fputc(text[i % strlen(text)], file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static int next_fd(void)
{
    int fd = dup(STDIN_FILENO);

    assert_true(fd >= 0);
    return close(fd) == 0 ? fd : -1;
}

static void assert_refused(const char *wanted)
{
    struct config config = {.workers = 99};
    struct rlock_err err = {0};
    int fd = next_fd();

    ASSERT_STATUS(config_read(&config, &err), RLOCK_INVALID);
    ASSERT_NUMBER(next_fd(), ==, fd);
    assert_string_equal(err.text, wanted);
    ASSERT_NUMBER(config.workers, ==, 99); /* unchanged */
}

CASE(test_read__defaults)
{
    struct config config;

    assert_int_equal(setenv("SECKILL_WORKERS", "", 1), 0);
    assert_int_equal(setenv("SECKILL_TEST_ANY", "1", 1), 0);
    assert_int_equal(setenv("SECKIL_WORKERS", "1", 1), 0);
    ASSERT_STATUS(config_read(&config, NULL), RLOCK_OK);
    assert_string_equal(config.listen, "127.0.0.1:8080");
    assert_string_equal(config.jwt_secret, "");
    assert_string_equal(config.tls_cert, "");
    assert_string_equal(config.currency, "CNY");
    ASSERT_NUMBER(config.workers, ==, 0);
    ASSERT_NUMBER(config.lock_lease_ms, ==, 30000);
    ASSERT_NUMBER(config.jwt_alg, ==, CONFIG_HS256);
    ASSERT_NUMBER(config.log_level, ==, 2);
    ASSERT_NUMBER(config.file_count, ==, 0);
    ASSERT_NUMBER(config.exposed_count, ==, 0);
    config_clear(&config);
}

CASE(test_read__values)
{
    static const struct {
        const char *value;
        /* the value of SECKILL_TICKET_TTL_S; -1: the setting is refused */
        int64_t number;
    } rows[] = {
        {"5", 5},     {"3600", 3600}, {"0007", 7},
        {"4", -1},    {"3601", -1},   {"", 120},
        {"-5", -1},   {"5-", -1},     {"5 ", -1},
        {" 5", -1},   {"+5", -1},     {"5x", -1},
        {"0x10", -1}, {"-", -1},      {"99999999999999999999", -1},
    };
    char wanted[120];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct config config;

        assert_int_equal(setenv("SECKILL_TICKET_TTL_S", rows[i].value, 1), 0);
        snprintf(wanted, sizeof(wanted),
                 "SECKILL_TICKET_TTL_S is \"%s\"; allowed are 5 to 3600", rows[i].value);
        if (rows[i].number < 0) {
            assert_refused(wanted);
            continue;
        }
        ASSERT_STATUS(config_read(&config, NULL), RLOCK_OK);
        ASSERT_NUMBER(config.ticket_ttl_s, ==, rows[i].number);
        config_clear(&config);
    }
}

CASE(test_read__choices_and_texts)
{
    static const char *const levels[] = {"error", "warn", "info", "debug"};
    struct config config;

    for (size_t i = 0; i < COUNT_OF(levels); i++) {
        assert_int_equal(setenv("SECKILL_LOG_LEVEL", levels[i], 1), 0);
        ASSERT_STATUS(config_read(&config, NULL), RLOCK_OK);
        ASSERT_NUMBER(config.log_level, ==, i);
        config_clear(&config);
    }
    assert_int_equal(setenv("SECKILL_LOG_LEVEL", "loud", 1), 0);
    assert_refused("SECKILL_LOG_LEVEL is \"loud\"; allowed are error, warn, info, debug");
    assert_int_equal(unsetenv("SECKILL_LOG_LEVEL"), 0);
    assert_int_equal(setenv("SECKILL_JWT_ISSUER", " mint", 1), 0);
    ASSERT_STATUS(config_read(&config, NULL), RLOCK_OK);
    assert_string_equal(config.jwt_issuer, " mint");
    config_clear(&config);
    assert_int_equal(setenv("SECKILL_JWT_ISSUER", " \t\r\n", 1), 0);
    assert_refused("SECKILL_JWT_ISSUER is blank");
}

CASE(test_read__unknown_names)
{
    static const char *const rows[][2] = {
        {"SECKILL_WORKER", "SECKILL_WORKERS"},
        {"SECKILL_XWORKERS", "SECKILL_WORKERS"},
        {"SECKILL_ORDER_TIMEOUT", "SECKILL_ORDER_TIMEOUT_MS"},
        {"SECKILL_QUEUEMAX", "SECKILL_QUEUE_MAX"},
        {"SECKILL_DATABASE_URI", "SECKILL_DATABASE_URL"},
        {"SECKILL_TEST", "SECKILL_TICKET_SECRET"},
        {"SECKILL_", "SECKILL_LISTEN"},
    };
    char wanted[200];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        clearenv();
        assert_int_equal(setenv("PATH", "/bin", 1), 0);
        assert_int_equal(setenv(rows[i][0], "hunter2", 1), 0);
        snprintf(wanted, sizeof(wanted), "%s is unknown; the most similar setting is %s",
                 rows[i][0], rows[i][1]);
        assert_refused(wanted);
    }
}

CASE(test_read__contents_of_files)
{
    struct config config;
    char wanted[200];
    int fd = next_fd();

    assert_int_equal(setenv("SECKILL_JWT_SECRET_FILE", path, 1), 0);
    assert_int_equal(setenv("SECKILL_JWT_PUBLIC_KEY_FILE", path, 1), 0);
    write_file("a secret\r\n\n", 11, 0640);
    ASSERT_STATUS(config_read(&config, NULL), RLOCK_OK);
    assert_string_equal(config.jwt_secret, "a secret");
    assert_string_equal(config.jwt_public_key, "a secret");
    ASSERT_NUMBER(config.file_count, ==, 2);
    ASSERT_NUMBER(config.exposed_count, ==, 0);
    config_clear(&config);
    ASSERT_NUMBER(config.file_count, ==, 0);
    ASSERT_NUMBER(next_fd(), ==, fd);

    write_file("s", FILE_BYTES_MAX, 0644); /* everybody may read the file */
    ASSERT_STATUS(config_read(&config, NULL), RLOCK_OK);
    assert_int_equal(strlen(config.jwt_secret), FILE_BYTES_MAX);
    ASSERT_NUMBER(config.exposed_count, ==, 1);
    assert_string_equal(config.exposed[0], "SECKILL_JWT_SECRET_FILE");
    config_clear(&config);

    assert_int_equal(setenv("SECKILL_JWT_SECRET", "another", 1), 0);
    snprintf(wanted, sizeof(wanted),
             "SECKILL_JWT_SECRET_FILE is \"%s\"; allowed only without SECKILL_JWT_SECRET",
             path);
    assert_refused(wanted);
}

CASE(test_read__invalid_files)
{
    static const struct {
        const char *text;
        size_t len;
        mode_t mode;
        const char *why;
    } rows[] = {
        {"s", 0, 0600, "allowed is a file of 1 to 65536 bytes"},
        {"s", FILE_BYTES_MAX + 1, 0600, "allowed is a file of 1 to 65536 bytes"},
        {"s", FILE_BYTES_MAX + 2, 0600, "allowed is a file of 1 to 65536 bytes"},
        {"\n", 2, 0600, "the file is blank"},
        {" \t\r\n", 4, 0600, "the file is blank"},
        {"s", 1, 0620,
         "its mode is 0620, but only its owner may write to it: chmod go-w"},
        {"s", 1, 04602,
         "its mode is 4602, but only its owner may write to it: chmod go-w"},
    };
    char wanted[200];
    FILE *file;

    assert_int_equal(setenv("SECKILL_JWT_KEYS_FILE", path, 1), 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        write_file(rows[i].text, rows[i].len, rows[i].mode);
        snprintf(wanted, sizeof(wanted), "SECKILL_JWT_KEYS_FILE is \"%s\"; %s", path,
                 rows[i].why);
        assert_refused(wanted);
    }
    write_file("s", 1, 0600);
    torture_fail(1, 0);
    snprintf(wanted, sizeof(wanted), "SECKILL_JWT_KEYS_FILE is \"%s\"; %s", path,
             rows[0].why);
    assert_refused(wanted);
    assert_true(torture_stop());
    file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite("a\0b", 1, 3, file), 3);
    assert_int_equal(fclose(file), 0);
    snprintf(wanted, sizeof(wanted),
             "SECKILL_JWT_KEYS_FILE is \"%s\"; the file has a NUL byte", path);
    assert_refused(wanted);
    assert_int_equal(setenv("SECKILL_JWT_KEYS_FILE", "/no/such/file", 1), 0);
    assert_refused("SECKILL_JWT_KEYS_FILE is \"/no/such/file\"; cannot read it: No such "
                   "file or directory");
}

CASE(test_read__a_pipe)
{
    struct config config;
    char name[40];
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    assert_int_equal(write(fds[1], "kid: a", 6), 6);
    close(fds[1]);
    assert_int_equal(fchmod(fds[0], 0666), 0);
    snprintf(name, sizeof(name), "/dev/fd/%d", fds[0]);
    assert_int_equal(setenv("SECKILL_JWT_KEYS_FILE", name, 1), 0);
    ASSERT_STATUS(config_read(&config, NULL), RLOCK_OK);
    assert_string_equal(config.jwt_keys, "kid: a");
    ASSERT_NUMBER(config.exposed_count, ==, 0);
    config_clear(&config);
    close(fds[0]);
}

CASE(test_read__certificate_and_key_only_together)
{
    struct config config;

    write_file("pem", 3, 0600);
    assert_int_equal(setenv("SECKILL_TLS_CERT_FILE", path, 1), 0);
    assert_refused("SECKILL_TLS_KEY_FILE is not set; SECKILL_TLS_CERT_FILE and "
                   "SECKILL_TLS_KEY_FILE are allowed only together");
    assert_int_equal(setenv("SECKILL_TLS_KEY_FILE", path, 1), 0);
    ASSERT_STATUS(config_read(&config, NULL), RLOCK_OK);
    config_clear(&config);
    assert_int_equal(unsetenv("SECKILL_TLS_CERT_FILE"), 0);
    assert_refused("SECKILL_TLS_CERT_FILE is not set; SECKILL_TLS_CERT_FILE and "
                   "SECKILL_TLS_KEY_FILE are allowed only together");
}

CASE(test_read__currency)
{
    static const char *const known[] = {"CNY", "EUR", "JPY", "KWD", "AED", "ZWG"};
    static const char *const refused[] = {"RMB", "cny", "CN", "CNYX",
                                          "XTS", "XAU", "DEM"};
    struct config config;
    struct rlock_err err;
    char message[120];

    for (size_t i = 0; i < COUNT_OF(known); i++) {
        assert_int_equal(setenv("SECKILL_CURRENCY", known[i], 1), 0);
        ASSERT_STATUS(config_read(&config, &err), RLOCK_OK);
        assert_string_equal(config.currency, known[i]);
    }
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        assert_int_equal(setenv("SECKILL_CURRENCY", refused[i], 1), 0);
        snprintf(
            message, sizeof(message),
            "SECKILL_CURRENCY is \"%s\"; allowed are ISO 4217 codes of currencies in "
            "use, such as CNY or EUR",
            refused[i]);
        assert_refused(message);
    }
}

// NOLINTEND(concurrency-mt-unsafe)

CASE(test_print__name_default_and_allowed_values)
{
    static const char *const rows[] = {
        "  SECKILL_LISTEN (127.0.0.1:8080)\n      address and port of the HTTP server\n",
        "  SECKILL_WORKERS (0)  [0..256]\n      number of event loops",
        "  SECKILL_JWT_SECRET\n      HS256: the secret",
        "  SECKILL_JWT_SECRET_FILE  [file path]\n      HS256: file",
        "  SECKILL_JWT_PUBLIC_KEY_FILE  [file path]\n      RS256",
        "  SECKILL_LOG_LEVEL (info)  [error, warn, info, debug]\n      least severe",
    };
    struct text_document document;
    char *text;

    assert_true(text_document_begin(&document));
    config_print(document.out);
    text = text_document_end(&document);
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        ASSERT_CONTAINS(text, rows[i]);
    ASSERT_BEGINS(text, "  SECKILL_LISTEN");
    free(text);
}

int main(void)
{
    return cases_run(setup, teardown);
}
