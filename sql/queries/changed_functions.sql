-- Returns the functions to create, because they have changed or are missing, and the functions to
-- drop, because their file is gone. $1, $2: paths and contents of all files.
--
-- When an SQL-language function is created, the functions that it calls must exist. So its file
-- begins with a line "-- after NAME" for each of them, and the functions are created in this order.
with recursive file as (
    select path, content, substring(path from '/([^/.]+)[.]') as name,
           encode(sha256(convert_to(content, 'UTF8')), 'hex') as checksum
    from unnest($1::text[], $2::text[]) f (path, content)
    where path like 'sql/functions/%'
), changed as (
    select *
    from file
    where (path, checksum) not in (select path, checksum from schema_file)
       or name not in (select proname from pg_proc where pronamespace = current_schema::regnamespace)
), depth (name, depth) as (
    select name, 0
    from changed
    union
    select caller.name, depth + 1
    from depth, changed caller
    where caller.content ~ format('(?n)^-- after %s$', depth.name)
)
select 'step', path,
       format(E'%s\n;\n'
              'insert into schema_file (path, checksum) values (%L, %L) on conflict (path)'
              ' do update set checksum = excluded.checksum, applied_at = now();\n'
              'do $do$ begin'
              ' if (select count(*) from pg_proc where pronamespace = current_schema::regnamespace'
              '     and proname = %L) > 1 then'
              '  raise exception ''there is another function of this name; drop it in this file'';'
              ' end if; end $do$',
              content, path, checksum, name),
       (select max(depth) from depth where depth.name = changed.name)
from changed
union all
select 'step', path || ' (dropped)',
       format('drop function if exists %I; delete from schema_file where path = %L',
              substring(path from '/([^/.]+)[.]'), path),
       null
from schema_file
where path <> all ($1) -- never a migration: unknown migrations are refused
order by 4, 2
