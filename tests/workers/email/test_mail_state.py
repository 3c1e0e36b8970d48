"""The states of a mail at one provider: no transition forgets an unknown outcome or an order."""

import re
from itertools import product

import pytest

from atlas.workers.email.mail_state import TRANSITIONS, MailEvent, MailState


@pytest.mark.parametrize("state", [state for state in MailState if state.is_unsure])
def test_only_an_order_or_the_mail_itself_ends_an_unknown_outcome(state):
    following = [moves[state] for moves in TRANSITIONS.values() if state in moves]
    assert all(after.is_unsure for after in following)


@pytest.mark.parametrize("state", [MailState.SENDING, MailState.RESENDING])
def test_the_outcome_of_a_request_is_unknown_to_the_next_attempt(state):
    assert TRANSITIONS[MailEvent.TAKEN][state] is MailState.UNKNOWN
    assert TRANSITIONS[MailEvent.TAKEN_ON_ORDER][state] is MailState.ORDERED


def test_an_order_lasts_until_the_provider_is_asked_again():
    ordered = [state for state in MailState if state.is_ordered]
    for state, event in product(ordered, MailEvent):
        assert TRANSITIONS[event].get(state, state).is_ordered or event is MailEvent.REQUESTED


def test_a_sent_mail_stays_sent():
    assert not any(MailState.SENT in moves for moves in TRANSITIONS.values())


def test_every_state_that_may_be_sent_from_can_be_requested():
    open_now = {MailState.SENDING, MailState.RESENDING, MailState.SENT}
    assert set(TRANSITIONS[MailEvent.REQUESTED]) == set(MailState) - open_now


async def test_the_database_knows_the_same_states(pool):
    check = await pool.fetchval(
        "select pg_get_constraintdef(oid) from pg_constraint where conname = 'mail_ledger_state_check'"
    )
    assert set(re.findall(r"'(\w+)'", check)) == set(MailState)
