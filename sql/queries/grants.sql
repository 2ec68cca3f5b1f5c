-- Returns the statements that grant the rights of the service again to each role that has them, and
-- to the role $1 unless $1 is NULL. Returns NULL if there is no role.
select string_agg(format('select grant_service(%L)', role), ';')
from (select $1::text as role where $1 is not null
      union
      select pg_get_userbyid(a.grantee)::text
      from pg_proc p
      cross join lateral aclexplode(p.proacl) a
      where p.pronamespace = current_schema::regnamespace
        and p.proname = 'place_orders' and a.grantee not in (0, p.proowner)) roles
