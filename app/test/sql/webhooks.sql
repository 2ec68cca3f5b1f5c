-- webhooks.sql - the endpoints of the webhooks: their positions in the feed, failures, and commands.

-- test_webhook_add__begins_at_the_last_change
select prepare(query) from unnest('{webhook_add,list_webhooks}'::text[]) query;
execute webhook_add('https://one.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null, null, null, null);
--> 1|...|https://one.example|...|whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw
select setval('voucher_order_id_seq', 1, false);
execute webhook_add('https://two.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null, null, null, null);
--> 2|...|https://two.example|...|whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw
select setval('voucher_order_id_seq', 1234);
execute webhook_add('http://three.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null, null, null, null);
--> 3|...|http://three.example|...|whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw
execute webhook_add('http://four.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 1230, 1234, null, null);
--> 4|...|http://four.example|...|whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw
execute list_webhooks;
--> 1|1|0|https://one.example|whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw|1000|1000
--> 2|1|0|https://two.example|whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw|0|0
--> 3|1|0|http://three.example|whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw|1234|1234
--> 4|1|0|http://four.example|whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw|1230|1234
execute webhook_add('http://five.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 1230, 1235, null, null);
--> ERROR 23514: the position is beyond the last change
execute webhook_add('ftp://five.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null, null, null, null);
--> ERROR 23514: ...
execute webhook_add('http://five.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 2, 1, null, null);
--> ERROR 23514: ...
execute webhook_add('http://five.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS', null, null, null, null);
--> ERROR 23514: ...
insert into webhook (url, secret, first, number) select 'http://x', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 0, 0 from generate_series(5, 63);
execute webhook_add('http://sixty-four.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null, null, null, null);
select count(*) from webhook;
--> 64
execute webhook_add('http://sixty-five.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null, null, null, null);
--> ERROR 23514: there are 64 endpoints

-- test_webhook_add__counts_an_endpoint_that_another_session_is_adding
insert into webhook (url, secret, first, number) select 'http://x', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 0, 0 from generate_series(1, 63);
begin;
select url from add_webhook('https://one.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null, null, null, null);
--> https://one.example
b: select url from add_webhook('https://two.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null, null, null, null);
--> waits
commit;
b:
--> ERROR 23514: there are 64 endpoints

-- test_note_webhook__moves_the_position
select prepare(query) from unnest('{webhook_add,list_webhooks}'::text[]) query;
execute webhook_add('https://one.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 900, 990, null, null);
execute webhook_add('https://two.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null, null, null, null);
s: select note_webhook(1, 1, 7, 998, 999, null);
--> f
execute list_webhooks;
--> 1|1|7|https://one.example|whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw|998|999
--> 2|1|0|https://two.example|whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw|1000|1000
-- Nothing is noted with a smaller fence (an earlier deliverer), with another version than that of
-- the row (an operator has changed it), or without a row (an operator has removed it).
select note_webhook(1, 1, 6, 1000, 1000, null) is null, note_webhook(1, 2, 7, 1000, 1000, null) is null,
       note_webhook(3, 1, 7, 1000, 1000, null) is null;
--> t|t|t
execute list_webhooks;
--> 1|1|7|https://one.example|whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw|998|999
--> 2|1|0|https://two.example|whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw|1000|1000

-- test_note_webhook__disables_an_endpoint_that_has_failed_for_3_days
select prepare(query) from unnest('{webhook_add,list_webhooks,webhook_list,webhook_change}'::text[]) query;
execute webhook_add('https://one.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 900, 990, null, null);
select note_webhook(1, 1, 7, 900, 990, 'HTTP 500'), note_webhook(1, 1, 7, 900, 990, 'HTTP 501');
--> f|f
update webhook set failing_since = clock_timestamp() - interval '3 days' + interval '1 min';
select note_webhook(1, 1, 7, 900, 990, 'HTTP 502');
--> f
select error, disabled_at is null from webhook;
--> HTTP 502|t
execute webhook_list;
--> 1 https://one.example failing at 900_990, 10 changes behind, failing since ...: HTTP 502|f
-- A success ends the failure.
select note_webhook(1, 1, 7, 900, 991, null);
--> f
select error is null, failing_since is null from webhook;
--> t|t
execute webhook_list;
--> 1 https://one.example enabled at 900_991, 9 changes behind|t
select note_webhook(1, 1, 7, 900, 990, 'HTTP 503');
update webhook set failing_since = '2026-01-02 03:04:05.678+01';
select note_webhook(1, 1, 7, 900, 990, 'HTTP 504');
--> t
execute webhook_list;
--> 1 https://one.example disabled at 900_990, 10 changes behind, failing since 2026-01-02T02:04:05Z: HTTP 504|f
execute list_webhooks;
--> (none)
select note_webhook(1, 1, 7, 901, 991, null) is null;
--> t
execute webhook_change(1, 1, null, null, null);
--> 1|0|0|0|https://one.example|900|990|||
execute list_webhooks;
--> 1|2|7|https://one.example|whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw|900|990
execute webhook_list;
--> 1 https://one.example enabled at 900_990, 10 changes behind|t

-- test_note_webhook__keeps_the_last_100_deliveries
select prepare(query) from unnest('{webhook_add,webhook_log,webhook_deliveries}'::text[]) query;
execute webhook_add('https://one.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 900, 990, null, null);
execute webhook_add('https://two.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 900, 990, null, null);
execute webhook_log(1);
--> |1
select note_webhook(1, 1, 7, 900, 990, 'HTTP status 500', '{11,12}',
                    '{2026-01-02 03:04:05.678+01,2026-01-02 03:04:06+01}', '{7,10000}', '{null,timed out}');
--> f
execute webhook_log(1);
--> 2026-01-02T02:04:05.678Z evt_11 delivered in 7 ms|1
--> 2026-01-02T02:04:06.000Z evt_12 failed in 10000 ms: timed out|1
execute webhook_deliveries(1);
--> 12|2026-01-02 02:04:06+00|10000|timed out
--> 11|2026-01-02 02:04:05.678+00|7|
execute webhook_log(2);
--> |2
execute webhook_log(3);
--> (none)
execute webhook_deliveries(2);
--> |||
execute webhook_deliveries(3);
--> (none)
-- A note that changes nothing, and a note of the previous program, without deliveries.
select note_webhook(1, 1, 6, 900, 990, null, '{13}', '{now}', '{7}', '{null}') is null, note_webhook(1, 1, 7, 900, 990, null);
--> t|f
select cardinality(deliveries) from webhook where id = 1;
--> 2
select note_webhook(1, 1, 7, 900, 990, null, array(select generate_series(n + 1, n + 33)), array_fill(now(), '{33}'),
                    array_fill(1::bigint, '{33}'), array_fill(null::text, '{33}'))
from unnest('{100,200,300}'::bigint[]) n;
select cardinality(deliveries), array(select event_id from unnest(deliveries) limit 2), (deliveries[100]).event_id
from webhook where id = 1;
--> 100|{12,101}|333
select note_webhook(1, 1, 7, 900, 990, null, '{400}', '{now}', '{7}', '{null}');
select cardinality(deliveries), (deliveries[1]).event_id, (deliveries[100]).event_id from webhook where id = 1;
--> 100|101|400

-- Returns "ID LAG FAILING DISABLED" of each endpoint. The times are hours; "-" is no time at all.
-- test_webhook_states__says_since_when_events_wait_and_attempts_fail
create function pg_temp.states() returns setof text language plpgsql as $$
declare
    v_state record;
begin
    for v_state in execute 'execute webhook_states' loop
        return next concat_ws(' ', v_state.id, coalesce(round(nullif(v_state.lag_us, 0) / 3.6e9)::text, '-'),
                              coalesce(round(nullif(v_state.failing_us, 0) / 3.6e9)::text, '-'),
                              v_state.is_disabled);
    end loop;
end $$;
select prepare(query) from unnest('{webhook_add,webhook_states}'::text[]) query;
select pg_temp.states();
--> (none)
select new_voucher(50, 1);
update stock_event set at = now() - interval '6 h';
select restock_voucher(101, 5);
update stock_event set at = now() - interval '2 h' where at > now() - interval '1 h';
execute webhook_add('https://one.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 0, 0, null, null);
execute webhook_add('https://two.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 1001, 1001, null, null);
execute webhook_add('https://three.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 1002, 1002, null, null);
select pg_temp.states();
--> 1 6 - 0
--> 2 2 - 0
--> 3 - - 0
select note_webhook(1, 1, 7, 0, 0, 'HTTP 500'), note_webhook(2, 1, 7, 1001, 1001, 'HTTP 500');
update webhook set failing_since = now() - id * interval '20 h' where error is not null;
select pg_temp.states();
--> 1 6 20 0
--> 2 2 40 0
--> 3 - - 0
update webhook set disabled_at = now() where id = 1;
select pg_temp.states();
--> 1 - - 1
--> 2 2 40 0
--> 3 - - 0

-- test_webhook_change__moves_one_endpoint_to_a_position
select prepare(query) from unnest('{webhook_add,list_webhooks,webhook_change,webhook_remove}'::text[]) query;
execute webhook_add('https://one.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null, null, null, null);
execute webhook_add('https://two.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null, null, null, null);
execute webhook_change(2, 1, 3, 4, null);
--> 2|0|0|0|https://two.example|3|4|||
execute webhook_change(2, 1, 1000, 1001, null);
--> ERROR 23514: the position is beyond the last change
execute webhook_change(3, 1, 3, 4, null);
--> (none)
execute webhook_change(1, 1, 1000, 1000, null);
--> 1|0|0|0|https://one.example|1000|1000|||
execute list_webhooks;
--> 1|2|0|https://one.example|whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw|1000|1000
--> 2|2|0|https://two.example|whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw|3|4
execute webhook_remove(1);
--> 1|0|0|0|https://one.example|1000|1000|||
execute webhook_remove(1);
--> (none)
execute list_webhooks;
--> 2|2|0|https://two.example|whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw|3|4

-- An endpoint that fails keeps its failure when it is disabled.
-- test_webhook_change__disables_and_enables
select prepare(query) from unnest('{webhook_add,list_webhooks,webhook_change}'::text[]) query;
execute webhook_add('https://one.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null, null, null, null);
execute webhook_add('https://two.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null, null, null, null);
execute webhook_add('https://three.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null, null, null, null);
select note_webhook(2, 1, 7, 1000, 1000, 'HTTP 500');
update webhook set failing_since = '2026-01-02 03:04:05Z' where id = 2;
execute webhook_change(1, 0, null, null, 'admin:7');
--> 1|0|0|1|https://one.example|1000|1000|20...|disabled by admin:7|
execute webhook_change(2, 0, null, null, null);
--> 2|0|0|1|https://two.example|1000|1000|2026-01-02 03:04:05+00|HTTP 500|
execute webhook_change(3, 0, null, null, null);
--> 3|0|0|1|https://three.example|1000|1000|20...|disabled by an operator|
execute list_webhooks;
--> (none)
update webhook set disabled_at = '2026-01-02 03:04:05Z' where id = 1;
execute webhook_change(1, 0, null, null, 'admin:8');
--> 1|...|disabled by admin:7|
select version, disabled_at from webhook where id = 1;
--> 3|2026-01-02 03:04:05+00
execute webhook_change(1, 1, null, null, 'admin:7');
--> 1|0|0|0|https://one.example|1000|1000|||
execute list_webhooks;
--> 1|4|0|https://one.example|whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw|1000|1000

-- A repeated request shows the endpoint as it is now, and not its secret. A request that is refused does
-- not use its key.
-- test_webhook_add__happens_once_for_a_key
select prepare(query) from unnest('{webhook_add,webhook_change,webhook_remove}'::text[]) query;
execute webhook_add('https://one.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 5, 2000, 'k', 'admin:1');
--> ERROR 23514: the position is beyond the last change
execute webhook_add('https://one.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null, null, 'k', 'admin:1');
--> 2|0|0|0|https://one.example|1000|1000|||whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw
execute webhook_change(2, 1, 5, 6, null);
execute webhook_add('https://one.example', 'whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA', null, null, 'k', 'admin:1');
--> 2|0|0|0|https://one.example|5|6|||
execute webhook_add('https://two.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null, null, 'k', 'admin:1');
--> ERROR 23505: the key belongs to another request
execute webhook_add('https://one.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 5, 6, 'k', 'admin:1');
--> ERROR 23505: the key belongs to another request
execute webhook_add('https://one.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 5, 7, 'l', 'admin:1');
execute webhook_add('https://one.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 5, 8, 'l', 'admin:1');
--> ERROR 23505: the key belongs to another request
execute webhook_add('https://one.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null, null, 'k', 'admin:2');
select count(*) from webhook;
--> 3
execute webhook_remove(2);
execute webhook_add('https://one.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null, null, 'k', 'admin:1');
--> ERROR 23505: the key belongs to another request

-- The service changes endpoints by functions only.
-- test_webhook_add__has_the_rights_of_the_service
s: select id, secret is null from add_webhook('https://one.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null, null, null, null);
--> 1|f
s: select error from change_webhook(1, false, null, null, 'admin:1');
--> disabled by admin:1
s: select c.url from webhook w, webhook_columns(w) c;
--> https://one.example
s: delete from webhook;
--> ERROR 42501: ...
s: select id from remove_webhook(1);
--> 1
