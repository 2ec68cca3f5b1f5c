-- Finds other roles that may create functions in the schema of the service. This is dangerous: if a
-- function of the service calls a function that another role has created, the called function runs
-- with the rights of the role that owns the service's functions. The first row is a REVOKE of the
-- right CREATE of `public`, if the current role may execute it. Then follows a warning for each
-- other role that has the right, and for each function of another role. $3: 1 in a dry run.
with creator as ( -- role 0 is public
    select a.grantee = 0 and pg_has_role(n.nspowner, 'usage') as is_revocable,
           case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end as role
    from pg_namespace n
    cross join lateral aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a
    where n.nspname = current_schema and a.privilege_type = 'CREATE'
      and not pg_has_role(
          case pg_get_userbyid(a.grantee) when 'pg_database_owner'
               then (select datdba from pg_database where datname = current_database())
               else a.grantee end, current_user, 'member')
)
select 'step' as kind, sql, sql
from creator, format('revoke create on schema %I from public', current_schema) sql
where is_revocable
union all
select 'warning', format('role %s may create functions in schema %I, and so act with the rights of %I',
                         role, current_schema, current_user), null
from creator
where $3 = 1 or not is_revocable
union all
select 'warning', format('function %s belongs to role %s: the functions of the service may call it',
                         oid::regprocedure, proowner::regrole), null
from pg_proc
where pronamespace = current_schema::regnamespace and not pg_has_role(proowner, current_user, 'member')
order by kind
