-- Returns the migrations that are not applied yet, in their order, each in a transaction of its
-- own. $1, $2: paths and contents of all files.
--
-- A transaction first locks all tables that its migration names, in the order of the service: the
-- table voucher first. If a migration took a weak lock and then a stronger one, it could deadlock
-- with the sale. While a lock is awaited, the sale waits, too. So lock_timeout is short, and the
-- caller tries again.
with new as (
    select path, content, row_number() over (order by position) as number,
           encode(sha256(convert_to(content, 'UTF8')), 'hex') as checksum
    from unnest($1::text[], $2::text[]) with ordinality f (path, content, position)
    where path like 'sql/migrations/%' and path not in (select path from schema_file)
)
select 'commit' as kind, 'commit', 'commit; begin', number
from new
where number > 1
union all
select 'lock', 'locks for ' || path,
       format('lock table %s in access exclusive mode',
              string_agg(quote_ident(relname), ', ' order by relname <> 'voucher', relname)),
       number
from new
join pg_class on relkind = 'r' and relname = any (regexp_split_to_array(content, '\W+'))
where relnamespace = current_schema::regnamespace
group by path, number
union all
select 'step', path,
       format(E'%s\n;\ninsert into schema_file (path, checksum) values (%L, %L)', content, path, checksum),
       number
from new
order by number, kind -- the kinds in this order: commit, lock, step
