"""buy.py URL VOUCHER SHOPPER PAYMENT - buys with the client that openapi-python-client generates.

Prints the id of the order."""

import sys

from seckill_client import AuthenticatedClient
from seckill_client.api.orders import pay_order, place_order
from seckill_client.models import OrderStatus, PayOrderBody, ProblemAlreadyOrdered

url, voucher, shopper, payment = sys.argv[1:]

with AuthenticatedClient(url, shopper) as client:
    order = place_order.sync(voucher, client=client, idempotency_key="press-1")
    refused = place_order.sync(voucher, client=client)
assert isinstance(refused, ProblemAlreadyOrdered) and refused.order_id == order.id, refused
with AuthenticatedClient(url, payment) as client:
    paid = pay_order.sync(order.id, client=client, body=PayOrderBody(payment_ref="python", amount_cents=order.price_cents))
assert paid.status is OrderStatus.PAID, paid
print(order.id)
