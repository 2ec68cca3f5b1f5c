-- Find the entry of the shopper $2 in the lottery $1. After the draw, returns its hash and whether it
-- has won.
select encode(rank, 'hex'), won from read_entry($1, $2)
