-- Creating and changing vouchers. Each change raises the version and is told on the channel
-- seckill_voucher; place_orders() tells nobody, as a notification takes a lock that all
-- commits of the database share.
--
-- What the fields must obey stands in the CHECKs of the table: a call that breaks one fails.

create function create_voucher(p_voucher bigint, p_title text, p_description text,
    p_price_cents bigint, p_face_value_cents bigint, p_stock bigint, p_per_user_limit bigint,
    p_begin_at timestamptz, p_end_at timestamptz, p_pay_within_s bigint)
returns setof voucher
language plpgsql
as $$
begin
    return query
    insert into voucher (id, title, description, price_cents, face_value_cents, stock_total,
                         stock_left, per_user_limit, begin_at, end_at, pay_within_s)
    values (p_voucher, p_title, p_description, p_price_cents, p_face_value_cents, p_stock,
            p_stock, p_per_user_limit, p_begin_at, p_end_at, p_pay_within_s)
    returning *;
    perform pg_notify('seckill_voucher', p_voucher::text);
end
$$;

-- NULL leaves a field as it is. No row: no such voucher.
create function patch_voucher(p_voucher bigint, p_title text, p_description text,
    p_begin_at timestamptz, p_end_at timestamptz, p_pay_within_s bigint)
returns setof voucher
language plpgsql
as $$
begin
    return query
    update voucher v
    set title = coalesce(p_title, v.title),
        description = coalesce(p_description, v.description),
        begin_at = coalesce(p_begin_at, v.begin_at),
        end_at = coalesce(p_end_at, v.end_at),
        pay_within_s = coalesce(p_pay_within_s, v.pay_within_s),
        version = v.version + 1
    where v.id = p_voucher
    returning *;
    if found then
        perform pg_notify('seckill_voucher', p_voucher::text);
    end if;
end
$$;

-- A negative number takes unsold stock back. No row: no such voucher.
create function restock_voucher(p_voucher bigint, p_add bigint)
returns setof voucher
language plpgsql
as $$
begin
    return query
    update voucher v
    set stock_total = v.stock_total + p_add,
        stock_left = v.stock_left + p_add,
        version = v.version + 1
    where v.id = p_voucher
    returning *;
    if found then
        perform pg_notify('seckill_voucher', p_voucher::text);
    end if;
end
$$;
