-- Return the columns of a voucher that only a lottery has, like voucher_columns(). They have a
-- function of their own because the previous program reads the result of voucher_columns() by the
-- positions of its columns.
create or replace function lottery_columns(v voucher)
returns table (commitment text, seed text, drawn_at timestamptz)
language sql stable rows 1
as $$
    select encode(v.commitment, 'hex'), encode(v.seed, 'hex'), v.drawn_at
$$;
