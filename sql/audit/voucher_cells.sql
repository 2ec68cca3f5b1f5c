-- every voucher belongs to a cell of this database
select format('voucher %s: this database has cells %s', v.id,
              (select string_agg(format('%s/%s', c.number, c.cells), ' ') from cell c))
from voucher v
where not exists (select from cell c where v.id % c.cells = c.number);
