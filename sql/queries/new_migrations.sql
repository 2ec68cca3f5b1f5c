-- The migrations that are not applied yet, in their order, each in a transaction of its own. A refusal
-- for each applied migration that has changed or is unknown. $1, $2: paths and contents of all files.
with file as (
    select path, content, position, encode(sha256(convert_to(content, 'UTF8')), 'hex') as checksum
    from unnest($1::text[], $2::text[]) with ordinality f (path, content, position)
    where path like 'sql/migrations/%'
), new as (
    select *, row_number() over (order by position) as number
    from file
    where path not in (select path from schema_file)
)
select 'refusal', path || ' is recorded but unknown to this program: the database is newer', null, 0
from schema_file
where path like 'sql/migrations/%' and path <> all ($1)
union all
select 'refusal', path || ' has changed since it was applied', null, 0
from file
join schema_file using (path)
where file.checksum <> schema_file.checksum
union all
select 'commit', 'commit', 'commit; begin', 2 * number
from new
where number > 1
union all
select 'step', path,
       format(E'%s\n;\ninsert into schema_file (path, checksum) values (%L, %L)', content, path, checksum),
       2 * number + 1
from new
order by 4
