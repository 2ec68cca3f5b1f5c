-- history ids are unique and match their voucher
select format('voucher %s: id %s occurs %s times in the history', voucher_id, id, count(*))
from voucher_history
group by voucher_id, id
having count(*) > 1 or id <= 0 or (id - voucher_id) % 1048576 <> 0;
