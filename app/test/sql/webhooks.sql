-- webhooks.sql - the endpoints of the webhooks: their positions in the feed, failures, and commands.

-- test_webhook_add__begins_at_the_last_change
select prepare(query) from unnest('{webhook_add,list_webhooks}'::text[]) query;
execute webhook_add('https://one.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null, null);
--> 1
select setval('voucher_order_id_seq', 1, false);
execute webhook_add('https://two.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null, null);
--> 2
select setval('voucher_order_id_seq', 1234);
execute webhook_add('http://three.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null, null);
--> 3
execute webhook_add('http://four.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 1230, 1234);
--> 4
execute list_webhooks;
--> 1|1|0|https://one.example|whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw|1000|1000
--> 2|1|0|https://two.example|whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw|0|0
--> 3|1|0|http://three.example|whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw|1234|1234
--> 4|1|0|http://four.example|whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw|1230|1234
execute webhook_add('http://five.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 1230, 1235);
--> (none)
execute webhook_add('ftp://five.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null, null);
--> ERROR 23514: ...
execute webhook_add('http://five.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 2, 1);
--> ERROR 23514: ...
execute webhook_add('http://five.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS', null, null);
--> ERROR 23514: ...
insert into webhook (url, secret, first, number) select 'http://x', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 0, 0 from generate_series(5, 63);
execute webhook_add('http://sixty-four.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null, null);
select count(*) from webhook;
--> 64
execute webhook_add('http://sixty-five.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null, null);
--> (none)

-- test_note_webhook__moves_the_position
select prepare(query) from unnest('{webhook_add,list_webhooks}'::text[]) query;
execute webhook_add('https://one.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 900, 990);
execute webhook_add('https://two.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null, null);
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
select prepare(query) from unnest('{webhook_add,list_webhooks,webhook_list,webhook_resume}'::text[]) query;
execute webhook_add('https://one.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 900, 990);
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
execute webhook_resume(1, null, null);
--> 1
execute list_webhooks;
--> 1|2|7|https://one.example|whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw|900|990
execute webhook_list;
--> 1 https://one.example enabled at 900_990, 10 changes behind|t

-- test_note_webhook__keeps_the_last_100_deliveries
select prepare(query) from unnest('{webhook_add,webhook_log,webhook_deliveries}'::text[]) query;
execute webhook_add('https://one.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 900, 990);
execute webhook_add('https://two.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 900, 990);
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
execute webhook_add('https://one.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 0, 0);
execute webhook_add('https://two.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 1001, 1001);
execute webhook_add('https://three.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 1002, 1002);
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

-- test_webhook_resume__moves_one_endpoint_to_a_position
select prepare(query) from unnest('{webhook_add,list_webhooks,webhook_resume,webhook_remove}'::text[]) query;
execute webhook_add('https://one.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null, null);
execute webhook_add('https://two.example', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null, null);
execute webhook_resume(2, 3, 4);
--> 2
execute webhook_resume(2, 1000, 1001);
--> (none)
execute webhook_resume(3, 3, 4);
--> (none)
execute webhook_resume(1, 1000, 1000);
--> 1
execute list_webhooks;
--> 1|2|0|https://one.example|whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw|1000|1000
--> 2|2|0|https://two.example|whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw|3|4
execute webhook_remove(1);
--> 1
execute webhook_remove(1);
--> (none)
execute list_webhooks;
--> 2|2|0|https://two.example|whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw|3|4
