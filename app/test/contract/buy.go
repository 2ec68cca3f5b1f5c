// buy.go URL VOUCHER SHOPPER PAYMENT - buys with the client that oapi-codegen generates, and prints
// the id of the order.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func as(url, token string) *ClientWithResponses {
	client, err := NewClientWithResponses(url, WithRequestEditorFn(func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer "+token)
		return nil
	}))
	must(err)
	return client
}

func main() {
	url, voucher := os.Args[1], os.Args[2]
	shopper, payment := as(url, os.Args[3]), as(url, os.Args[4])
	background, key := context.Background(), "press-1"

	placed, err := shopper.PlaceOrderWithResponse(background, voucher, &PlaceOrderParams{IdempotencyKey: &key})
	must(err)
	if placed.JSON201 == nil {
		log.Fatalf("%s", placed.Body)
	}
	order := placed.JSON201

	again, err := shopper.PlaceOrderWithResponse(background, voucher, &PlaceOrderParams{})
	must(err)
	if again.ApplicationproblemJSON409 == nil {
		log.Fatalf("%s", again.Body)
	}
	refused, err := again.ApplicationproblemJSON409.AsProblemAlreadyOrdered()
	must(err)
	if refused.Code != ProblemAlreadyOrderedCodeAlreadyOrdered || refused.OrderId != order.Id {
		log.Fatalf("%s", again.Body)
	}

	paid, err := payment.PayOrderWithResponse(background, order.Id, &PayOrderParams{IdempotencyKey: &key},
		PayOrderJSONRequestBody{PaymentRef: "go", AmountCents: Cents(order.PriceCents)})
	must(err)
	if paid.JSON200 == nil || paid.JSON200.Status != Paid {
		log.Fatalf("%s", paid.Body)
	}
	fmt.Println(order.Id)
}
