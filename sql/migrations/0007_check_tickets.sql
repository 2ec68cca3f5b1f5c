-- place_orders() and place_many() have one more parameter. They are created again from their files.
drop function if exists place_orders;
drop function if exists place_many;
