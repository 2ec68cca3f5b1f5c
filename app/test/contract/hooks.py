"""hooks.py - for Schemathesis: who calls, vouchers that are on sale, payments of their price.

A random token would only find 401, so each operation gets the token of a role that may use it. A
random window of sale is nearly never open, and a random amount never the price, so most requests
have others."""

import os
import random

import schemathesis

ADMIN, PAYMENT = os.environ["ADMIN"], os.environ["PAYMENT"]
with open(os.environ["TOKENS"]) as file:
    SHOPPERS = file.read().split()
OF_SHOPPERS = {"placeOrder", "createTicket", "cancelOrder", "listOrders"}
USUAL = {"createVoucher": {"begin_at": "2026-01-01T00:00:00Z", "end_at": "2126-01-01T00:00:00Z", "price_cents": 900,
                           "requires_ticket": False},
         "payOrder": {"amount_cents": 900}}


@schemathesis.hook
def before_call(context, case, kwargs):
    operation = case.operation.definition.raw["operationId"]
    token = random.choice(SHOPPERS) if operation in OF_SHOPPERS else PAYMENT if operation == "payOrder" else ADMIN
    case.headers["Authorization"] = f"Bearer {token}"
    if operation in USUAL and isinstance(case.body, dict) and random.random() < 0.8:
        case.body.update(USUAL[operation])
