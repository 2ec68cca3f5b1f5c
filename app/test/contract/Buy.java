// Buy.java URL VOUCHER SHOPPER PAYMENT - buys with the client that openapi-generator generates, and
// prints the id of the order.
import seckill.ApiClient;
import seckill.ApiException;
import seckill.api.OrdersApi;
import seckill.model.Order;
import seckill.model.OrderStatus;
import seckill.model.PayOrderRequest;
import seckill.model.PlaceOrder409Response;

final class Buy {
    private static OrdersApi as(String url, String token) {
        ApiClient client = new ApiClient().setBasePath(url);
        client.setBearerToken(token);
        return new OrdersApi(client);
    }

    /** The order that a second order of the same shopper is refused for. */
    private static String alreadyOrdered(OrdersApi shopper, String voucher) throws Exception {
        try {
            throw new IllegalStateException("placed " + shopper.placeOrder(voucher, null, null));
        } catch (ApiException refused) {
            return PlaceOrder409Response.fromJson(refused.getResponseBody()).getProblemAlreadyOrdered().getOrderId();
        }
    }

    public static void main(String[] args) throws Exception {
        OrdersApi shopper = as(args[0], args[2]), payment = as(args[0], args[3]);
        Order order = shopper.placeOrder(args[1], "press-1", null);
        String other = alreadyOrdered(shopper, args[1]);
        if (!other.equals(order.getId()))
            throw new IllegalStateException("already ordered: " + other);
        Long cents = order.getPriceCents(); // an Integer would be too small
        Order paid = payment.payOrder(order.getId(), new PayOrderRequest().paymentRef("java").amountCents(cents), null);
        if (paid.getStatus() != OrderStatus.PAID)
            throw new IllegalStateException(paid.toString());
        System.out.println(order.getId());
    }
}
