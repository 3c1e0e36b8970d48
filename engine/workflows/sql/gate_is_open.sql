-- Whether something may start now; holds the gate open to the end of the transaction. SQL, because a function does it.
select atlas.may_claim(null);
