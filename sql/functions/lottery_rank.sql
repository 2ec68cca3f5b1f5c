-- Return the rank of a shopper's entry: the entries with the smallest ranks win. The seed has 32
-- bytes and the shopper's id has 8, so the hash needs no HMAC to keep them apart. Half of the hash
-- is enough: it makes the index smaller, and no two of a billion shoppers have the same half.
create or replace function lottery_rank(p_seed bytea, p_user bigint) returns bytea
language sql immutable
return substr(sha256(p_seed || int8send(p_user)), 1, 16);
