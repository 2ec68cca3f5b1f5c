-- Vouchers whose orders are drawn by lot, see functions/draw_lotteries.sql.
--
-- A voucher with a commitment is a lottery. The commitment is the SHA-256 of the seed, which is
-- published when the draw begins. Both are here because everybody may read them. There is no CHECK,
-- because Postgres would evaluate it in every update of the stock.

set local lock_timeout = '5s';

alter table voucher
    add column if not exists commitment bytea,
    add column if not exists seed bytea,
    add column if not exists drawn_at timestamptz; -- the end of the draw

-- The service may not read these two tables: the seed tells who will win.
create table lottery (
    voucher_id bigint primary key,
    seed bytea not null check (octet_length(seed) = 32),
    draw_at timestamptz, -- end_at of the voucher; NULL: the draw has ended
    last_rank bytea not null default '', -- of the last winner
    winners bigint not null default 0
);

-- finds the lotteries that are due
create index lottery_draw on lottery (draw_at) where draw_at is not null;

-- A row for each shopper who has entered. The rank is a function of the seed and the shopper, see
-- functions/lottery_rank.sql, so this key also ensures that no shopper enters twice. The draw reads
-- it in its order.
create table lottery_entry (
    voucher_id bigint not null,
    user_id positive_id not null,
    rank bytea not null,
    primary key (voucher_id, rank)
);

-- The entries of the lotteries whose draw has begun.
create view drawn_entry as
select e.voucher_id, e.user_id::bigint as user_id, e.rank, e.rank <= l.last_rank as has_won
from voucher v
join lottery l on l.voucher_id = v.id
join lottery_entry e on e.voucher_id = v.id
where v.seed is not null;
