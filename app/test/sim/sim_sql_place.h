/* sim_sql_place.h - the model of the SQL functions that place and find orders. */
#ifndef SIM_SQL_PLACE_H
#define SIM_SQL_PLACE_H

#include "app/test/sim/sim_sql.h"

bool sim_sql_is_of(const struct sim_order *order, size_t voucher, int64_t user_id);
bool sim_sql_has_key(const struct sim_order *order, struct text key);

void sim_sql_put_detail(const struct sim_order *order);

PGresult *sim_sql_place_orders(const struct sim_params *params, struct sim_txn *txn);
PGresult *sim_sql_place_many(const struct sim_params *params, struct sim_txn *txn);
PGresult *sim_sql_find_orders(const struct sim_params *params);
PGresult *sim_sql_resolve_orders(const struct sim_params *params);

#endif
