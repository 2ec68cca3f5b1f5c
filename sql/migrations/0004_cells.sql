-- The cells of which this database has data: its own, or, in an aggregate, those that replicate to
-- it. The vouchers of a cell are those whose id modulo `cells` is its number. An aggregate has one more
-- row, with the number -1.
create table cell (
    number integer primary key,
    cells integer not null default 1,
    alive_at timestamptz not null default now(), -- by beat(), every few seconds
    constraint cell_cells check (cells between 1 and 1024 and cells & (cells - 1) = 0),
    constraint cell_number check (number between -1 and cells - 1)
);

insert into cell (number) values (0);
