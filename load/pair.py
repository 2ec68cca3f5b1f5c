"""pair.py - a Postgres server with a synchronous standby."""

import harness


def start(place, stack, is_synchronous=True):
    """Returns the primary and the standby, which begins with a copy of the primary."""
    primary, standby = (harness.Servers(f"{place}/{name}") for name in ("primary", "standby"))
    for each in (primary, standby):
        stack.callback(each.down)
    primary.up()
    primary.configure("primary_conninfo", primary.url("superuser", "?application_name=standby"))
    primary.down()
    standby.do("clone", primary.directory)
    open(f"{standby.directory}/postgres/standby.signal", "w").close()
    primary.up()
    standby.up()
    if is_synchronous:
        primary.configure("synchronous_standby_names", "standby")
    wanted = "sync" if is_synchronous else "async"
    harness.wait_for("the standby is attached", lambda: harness.sql(
        primary.url("superuser"), f"select count(*) from pg_stat_replication where sync_state = '{wanted}'") == ["1"])
    return primary, standby


def promote(standby):
    harness.sql(standby.url("superuser"), "select pg_promote()")


def url_of_both(primary, standby):
    """A database URL with both servers."""
    servers, _, database = primary.url("service").rpartition("/")
    return f"{servers},127.0.0.1:{standby.env['PG_PORT']}/{database}"
