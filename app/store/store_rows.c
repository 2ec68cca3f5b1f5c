/* store_rows.c - decodes the orders that the functions of sql/ return. */
#include "app/store/store_impl.h"

enum order_column { ORDER_ID, ORDER_VOUCHER_ID, ORDER_USER_ID, ORDER_DETAIL };

bool store_decode_detail(struct result_array *detail, struct order *ret_order)
{
    int64_t status;

    ret_order->price_cents = result_array_next(detail);
    ret_order->created_us = result_array_next(detail);
    ret_order->expires_us = result_array_next(detail);
    ret_order->paid_us = result_array_next(detail);
    status = result_array_next(detail);
    ret_order->status = (enum order_status)status;
    return status >= ORDER_UNPAID && status <= ORDER_REFUNDED;
}

bool store_decode_order(const PGresult *result, int row, int first,
                        struct order *ret_order)
{
    struct result_array detail = result_array(result, row, first + ORDER_DETAIL);

    *ret_order = (struct order){
        .id = result_int64(result, row, first + ORDER_ID),
        .voucher_id = result_int64(result, row, first + ORDER_VOUCHER_ID),
        .user_id = result_int64(result, row, first + ORDER_USER_ID),
    };
    return store_decode_detail(&detail, ret_order);
}
