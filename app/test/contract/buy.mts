// buy.mts URL VOUCHER SHOPPER PAYMENT - buys with the client that openapi-typescript generates, and
// prints the id of the order. Also shows that the types know the errors by their code.
import createClient from "openapi-fetch";
import type { paths } from "./seckill.js";

const [url, voucher, shopper, payment] = process.argv.slice(2) as [string, string, string, string];
const client = createClient<paths>({ baseUrl: url });
const as = (token: string) => ({ Authorization: `Bearer ${token}` });

const params = { path: { id: voucher }, header: { "Idempotency-Key": "press-1" } };
const placed = await client.POST("/v1/vouchers/{id}/orders", { params, headers: as(shopper) });
// The comparison narrows the type: the other answer is an entry in a lottery, which has no price.
if (placed.data === undefined || !("price_cents" in placed.data)) throw new Error(JSON.stringify(placed));
const order = placed.data;

const again = await client.POST("/v1/vouchers/{id}/orders", { params: { path: { id: voucher } }, headers: as(shopper) });
// The comparison narrows the type: only this error has an order_id.
if (again.error?.code !== "already_ordered" || again.error.order_id !== order.id) throw new Error(JSON.stringify(again));

const paid = await client.POST("/v1/orders/{id}/pay", {
    params: { path: { id: order.id } },
    body: { payment_ref: "typescript", amount_cents: order.price_cents },
    headers: as(payment),
});
if (paid.data?.status !== "paid") throw new Error(JSON.stringify(paid.error));
console.log(order.id);
