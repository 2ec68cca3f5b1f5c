"""pair.py - a Postgres server with a synchronous standby."""

import harness


def servers_do(servers, *command):
    harness.run(f"{harness.LOAD}/servers.sh", command[0], servers.directory, *command[1:])


def configure(url, name, value):
    harness.sql(url, f"alter system set {name} = '{value}'")
    harness.sql(url, "select pg_reload_conf()")


def start(place, stack, is_synchronous=True):
    """Returns the primary and the standby, which begins with a copy of the primary."""
    primary, standby = (harness.Servers(f"{place}/{name}") for name in ("primary", "standby"))
    for each in (primary, standby):
        stack.callback(each.down)
    primary.up()
    url = primary.env["PG_SUPERUSER_URL"]
    configure(url, "primary_conninfo", url.rsplit("/", 1)[0] + "/?application_name=standby")
    primary.down()
    servers_do(standby, "clone", primary.directory)
    open(f"{standby.directory}/postgres/standby.signal", "w").close()
    primary.up()
    standby.up()
    if is_synchronous:
        configure(url, "synchronous_standby_names", "standby")
    wanted = "sync" if is_synchronous else "async"
    harness.wait_for("the standby is attached", lambda: harness.sql(
        url, f"select count(*) from pg_stat_replication where sync_state = '{wanted}'") == ["1"])
    return primary, standby


def promote(standby):
    harness.sql(standby.env["PG_SUPERUSER_URL"], "select pg_promote()")


def url_of_both(primary, standby):
    """A database URL with both servers."""
    servers, _, database = primary.env["SECKILL_DATABASE_URL"].rpartition("/")
    return f"{servers},127.0.0.1:{standby.env['PG_PORT']}/{database}"
