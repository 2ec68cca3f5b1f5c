/* test_database_url.c - the hosts of a database URL, and lists of hosts that are refused. */
#include "app/store/database_url.h"

#include "test/case_list.h"

#define HOSTS_MAX 3

UNIT_CASE(test_database_url_host__takes_lists_apart)
{
    static const struct {
        const char *url;
        struct database_host hosts[HOSTS_MAX];
        unsigned count;
    } rows[] = {
        {"postgresql:///sale", {{"", "", ""}}, 1},
        {"dbname=sale", {{"", "", ""}}, 1},
        {"postgresql://db1/sale", {{"db1", "", ""}}, 1},
        {"postgresql://u:p@db1:5433/sale", {{"db1", "", "5433"}}, 1},
        {"postgresql://db1:5433,db2:5434/sale",
         {{"db1", "", "5433"}, {"db2", "", "5434"}},
         2},
        {"postgresql://db1,db2:5434/sale", {{"db1", "", "5432"}, {"db2", "", "5434"}}, 2},
        {"postgresql://[::1]:5433,[fe80::1]/sale",
         {{"::1", "", "5433"}, {"fe80::1", "", "5432"}},
         2},
        {"host=db1,db2,db3 port=6000",
         {{"db1", "", "6000"}, {"db2", "", "6000"}, {"db3", "", "6000"}},
         3},
        {"host=db1,db2 port=1,65535", {{"db1", "", "1"}, {"db2", "", "65535"}}, 2},
        {"host=db1,db2", {{"db1", "", ""}, {"db2", "", ""}}, 2},
        {"host=db1,db2 hostaddr=10.0.0.1,10.0.0.2",
         {{"db1", "10.0.0.1", ""}, {"db2", "10.0.0.2", ""}},
         2},
        {"hostaddr=10.0.0.1,::1 port=1,2", {{"", "10.0.0.1", "1"}, {"", "::1", "2"}}, 2},
        {"host=/run/postgresql,db2", {{"/run/postgresql", "", ""}, {"db2", "", ""}}, 2},
        {"postgresql://%2Frun%2Fpostgresql/sale", {{"/run/postgresql", "", ""}}, 1},
        {"host=@abstract", {{"@abstract", "", ""}}, 1},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rlock_err err = {0};
        unsigned count = 0;

        print_message("%s\n", rows[i].url);
        assert_int_equal(database_url_check(rows[i].url, &count, &err), RLOCK_OK);
        assert_int_equal(count, rows[i].count);
        for (unsigned number = 0; number < count; number++) {
            struct database_host host;

            assert_true(database_url_host(rows[i].url, number, &host));
            assert_string_equal(host.name, rows[i].hosts[number].name);
            assert_string_equal(host.address, rows[i].hosts[number].address);
            assert_string_equal(host.port, rows[i].hosts[number].port);
        }
    }
}

UNIT_CASE(test_database_url_check__refuses)
{
    static const struct {
        const char *url;
        const char *words;
    } rows[] = {
        {"postgresql://[", "not a libpq URI"},
        {"postgresql://db1:0/sale", "1 to 65535"},
        {"host=db1,db2 port=5432,65536", "1 to 65535"},
        {"host=db1 port=54x", "1 to 65535"},
        {"host=db1 port=0000000000005432", "too long"},
        {"postgresql://u:hunter@2@db1/sale", "%40"},
        {"postgresql://db1,u:hunter@2@db2/sale", "%40"},
        {"host=db1,db2,db3 port=1,2", "3 hosts, 0 hostaddrs, 2 ports"},
        {"port=1,2", "0 hosts, 0 hostaddrs, 2 ports"},
        {"host=db1,db2 hostaddr=10.0.0.1", "2 hosts, 1 hostaddrs, 0 ports"},
        {"host=db1,,db2", "empty"},
        {"host=,db2", "empty"},
        {"host=db1,db2 hostaddr=10.0.0.1,", "empty"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rlock_err err = {0};

        print_message("%s\n", rows[i].url);
        assert_int_equal(database_url_check(rows[i].url, NULL, &err), RLOCK_INVALID);
        ASSERT_CONTAINS(err.text, "SECKILL_DATABASE_URL");
        ASSERT_CONTAINS(err.text, rows[i].words);
        assert_null(strstr(err.text, "hunter"));
    }
}

UNIT_CASE(test_database_url_host__has_none_of_what_is_no_url)
{
    struct database_host unused;

    assert_false(database_url_host("postgresql://[", 0, &unused));
}

UNIT_CASE(test_database_url_check__refuses_a_name_that_is_too_long)
{
    char url[400] = "host=";
    struct rlock_err err = {0};

    memset(url + strlen(url), 'x', 300);
    assert_int_equal(database_url_check(url, NULL, &err), RLOCK_INVALID);
    ASSERT_CONTAINS(err.text, "too long");
}

UNIT_CASE(test_database_host_is_named__unless_address_or_socket)
{
    static const struct database_host named = {.name = "db1.example"};
    static const struct database_host others[] = {
        {.name = ""},
        {.name = "/run/postgresql"},
        {.name = "@abstract"},
        {.name = "10.0.0.1"},
        {.name = "::1"},
        {.name = "fe80::1%lo"},
        {.name = "db1.example", .address = "10.0.0.1"},
    };

    assert_true(database_host_is_named(&named));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(database_host_is_named(&others[i]));
}

int main(void)
{
    return cases_run(NULL, NULL);
}
