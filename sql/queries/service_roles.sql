-- The roles that have the rights of the service, and the role $1 unless it is NULL.
select $1::text where $1 is not null
union
select pg_get_userbyid(a.grantee)::text
from pg_proc p
cross join lateral aclexplode(p.proacl) a
where p.pronamespace = current_schema::regnamespace
  and p.proname = 'place_orders' and a.grantee not in (0, p.proowner)
