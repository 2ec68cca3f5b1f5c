-- Returns what an operator must know of each endpoint: one text per row.
select format('%s %s %s at %s_%s, %s changes behind%s', w.id, w.url,
              case when w.disabled_at is not null then 'disabled'
                   when w.error is not null then 'failing' else 'enabled' end,
              w.first, w.number, s.last_value - (not s.is_called)::integer - w.number,
              case when w.error is not null
                   then format(', failing since %s: %s',
                               to_char(w.failing_since at time zone 'UTC',
                                       'YYYY-MM-DD"T"HH24:MI:SS"Z"'), w.error) end),
       w.error is null
from webhook w, voucher_order_id_seq s
order by w.id
