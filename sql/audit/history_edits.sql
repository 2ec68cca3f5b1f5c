-- the last edit of each field of a voucher has set its present value
select format('voucher %s: its last edits have set %s', v.id, e.edited)
from voucher v
join (
    select voucher_id, jsonb_object_agg(key, value -> 1 order by id) as edited
    from stock_event, jsonb_each(detail::jsonb)
    group by voucher_id
) e on e.voucher_id = v.id
where jsonb_populate_record(v, e.edited) is distinct from v;
