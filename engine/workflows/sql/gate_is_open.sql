-- Whether something may start now; holds the gate open to the end of the transaction.
select atlas_claim_open(null);
