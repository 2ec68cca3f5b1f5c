-- Begins a transaction.
begin
