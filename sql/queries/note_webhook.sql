-- Notes the result of deliveries, see ../functions/note_webhook.sql. Returns 1 if the endpoint is now
-- disabled, and 0 if not. Returns NULL if nothing was changed.
select note_webhook($1::bigint, $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::text,
                    $7::bigint[], $8::timestamptz[], $9::bigint[], $10::text[])::integer
