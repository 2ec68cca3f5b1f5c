-- a key with voucher_id 0 has the id of the voucher that its request made; other keys have none
select format('voucher %s: key "%s" of %s has created %s', voucher_id, key, actor,
              coalesce(made_id::text, 'nothing'))
from used_key
where (voucher_id = 0) <> (made_id is not null);
