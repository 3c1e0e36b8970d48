"""The states of a mail at one provider: which transitions there are, and that none loses what is not known."""

from itertools import product

import pytest

from atlas.workers.email.mail_state import TRANSITIONS, MailEvent, MailState


@pytest.mark.parametrize("state", [state for state in MailState if state.is_unsure])
def test_only_an_order_or_the_mail_itself_ends_an_unknown_outcome(state):
    following = {after for event in MailEvent if (after := state.after(event)) is not None}
    assert all(after.is_unsure for after in following)


@pytest.mark.parametrize("state", [MailState.SENDING, MailState.RESENDING])
def test_the_outcome_of_a_request_is_unknown_to_the_next_attempt(state):
    assert state.after(MailEvent.TAKEN) is MailState.UNKNOWN
    assert state.after(MailEvent.TAKEN_ON_ORDER) is MailState.ORDERED


def test_an_order_lasts_until_the_provider_is_asked_again():
    ordered = [state for state in MailState if state.is_ordered]
    for state, event in product(ordered, MailEvent):
        after = state.after(event) or state
        assert after.is_ordered or event is MailEvent.REQUESTED


def test_a_sent_mail_stays_sent():
    assert all(MailState.SENT.after(event) is None for event in MailEvent)
    assert not any(after is MailState.SENT for moves in TRANSITIONS.values() for after in moves.values())


def test_every_state_that_may_be_sent_from_can_be_requested():
    open_now = {MailState.SENDING, MailState.RESENDING, MailState.SENT}
    assert set(TRANSITIONS[MailEvent.REQUESTED]) == set(MailState) - open_now
