"""hooks.py - for Schemathesis: tokens, vouchers that are on sale, and payments of their price.

A random token would only be answered 401, so each operation gets the token of a role that may use
it. A random sale is nearly never open, a random amount is never the price, and a random id nearly
never exists. So most requests get values that make sense."""

import os
import random

import schemathesis

ADMIN, PAYMENT = os.environ["ADMIN"], os.environ["PAYMENT"]
with open(os.environ["TOKENS"]) as file:
    SHOPPERS = file.read().split()
OF_SHOPPERS = {"placeOrder", "createTicket", "cancelOrder", "listOrders", "readEntry"}
USUAL = {"createVoucher": {"begin_at": "2026-01-01T00:00:00Z", "end_at": "2126-01-01T00:00:00Z", "price_cents": 900,
                           "requires_ticket": False, "admission": "first_come"},
         "payOrder": {"amount_cents": 900}}
CREATED = {"createVoucher": "vouchers", "placeOrder": "orders"}
known = {"vouchers": [], "orders": []} # ids, each with the token that created the object


def usually():
    return random.random() < 0.8


@schemathesis.hook
def before_call(context, case, kwargs):
    operation = case.operation.definition.raw["operationId"]
    ids = known.get(case.operation.path.split("/")[2]) if "{id}" in case.operation.path else None
    token = random.choice(SHOPPERS) if operation in OF_SHOPPERS else PAYMENT if operation == "payOrder" else ADMIN
    if ids and usually():
        case.path_parameters["id"], owner = random.choice(ids[-20:])
        token = owner if operation == "cancelOrder" else token
    case.headers["Authorization"] = f"Bearer {token}"
    for body in case.body if isinstance(case.body, list) else [case.body]:
        if operation in USUAL and isinstance(body, dict) and usually():
            body.update(USUAL[operation])


@schemathesis.hook
def after_call(context, case, response):
    kind = CREATED.get(case.operation.definition.raw["operationId"])
    if kind and response.status_code == 201:
        token = case.headers["Authorization"].removeprefix("Bearer ")
        created = response.json()
        known[kind] += [(each["id"], token) for each in created.get("items", [created])]
