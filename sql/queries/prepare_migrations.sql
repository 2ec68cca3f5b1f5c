-- Returns a refusal for each applied migration that has changed or is unknown, and for tables that
-- no recorded migration has created. Then returns the preparations that new migrations need, in
-- their order. The name of a file in preparations/ begins with the number of its migration. If an
-- earlier run was stopped, it may have left an invalid index, which is dropped first. A new
-- database needs no preparation. $1, $2: paths and contents of all files.
with file as (
    select path, content, substring(path from '/([0-9]+)_[^/]*$') as number
    from unnest($1::text[], $2::text[]) f (path, content)
), recorded as (
    select path, checksum
    from schema_file
    where path like 'sql/migrations/%'
), preparation as (
    select path, content
    from file
    where path like 'sql/preparations/%'
      and number in (select number from file
                     where path like 'sql/migrations/%' and path not in (select path from recorded))
      and exists (select from recorded)
)
select 'refusal', path || ' is recorded but unknown to this program: the database is newer' as text,
       null, null as path
from recorded
where path <> all ($1)
union all
select 'refusal', path || ' has changed since it was applied', null, null
from file
join recorded using (path)
where checksum <> encode(sha256(convert_to(content, 'UTF8')), 'hex')
union all
select 'refusal', format('schema %I has a table voucher, but no recorded migration: this program has no'
                         ' path from its version', current_schema), null, null
where to_regclass('voucher') is not null and not exists (select from recorded)
union all
select 'step', format('drop of the invalid index %I', c.relname),
       format('drop index concurrently %I', c.relname), path
from preparation
join pg_class c on c.relname = any (regexp_split_to_array(content, '\W+'))
join pg_index i on i.indexrelid = c.oid
where c.relnamespace = current_schema::regnamespace and not i.indisvalid
union all
select 'step', path, content, path
from preparation
order by path nulls first, text -- "drop of ..." is before "sql/..."
