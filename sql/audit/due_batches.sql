-- every unpaid order belongs to a batch in the index of deadlines
select format('voucher %s: order %s expires %s, and no batch includes it',
              voucher_id, id, expires_at)
from (
    select *, max(due_to_id) over (partition by voucher_id order by id) as last
    from voucher_order
) o
where status = 'unpaid' and (last >= id) is not true;
