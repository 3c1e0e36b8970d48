-- Whether something may start now; holds the gate open to the end of the transaction.
select atlas.may_claim(null);
