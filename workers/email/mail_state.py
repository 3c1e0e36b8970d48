"""The states of a mail at one provider, and which event moves which state to which."""

from enum import StrEnum


class MailState(StrEnum):
    """How far a mail is at one provider, and what is known about it."""

    # Nothing was asked for.
    BEGUN = "begun"
    # A draft is stored with the provider, which refused to send it.
    DRAFTED = "drafted"
    # The draft is being removed: if it is gone, it was not sent.
    DISCARDING = "discarding"
    # This attempt asked the provider to send it.
    SENDING = "sending"
    # An earlier attempt asked, and its outcome is not known.
    UNKNOWN = "unknown"
    # The same, and an operator ordered it again. The provider was not asked since.
    ORDERED = "ordered"
    # A refused draft has an unknown fate, and an operator ordered the mail again.
    DRAFT_ORDERED = "draft_ordered"
    # This attempt asked the provider on an operator's order.
    RESENDING = "resending"
    SENT = "sent"

    @property
    def is_open(self) -> bool:
        """The provider may have the mail, and it was not ordered again: no other provider may be tried."""
        return self in (MailState.SENDING, MailState.UNKNOWN, MailState.RESENDING)

    @property
    def was_asked(self) -> bool:
        """A provider was asked to send it and may have done so."""
        return self.is_open or self is MailState.ORDERED

    @property
    def is_ordered(self) -> bool:
        """An operator accepts that a second mail may go out."""
        return self in (MailState.ORDERED, MailState.DRAFT_ORDERED)

    @property
    def is_unsure(self) -> bool:
        """The mail may be out because of an earlier attempt, whatever comes of this one."""
        return self in (MailState.UNKNOWN, MailState.RESENDING) or self.is_ordered

    @property
    def has_refused_draft(self) -> bool:
        """A draft may be left with the provider that was not accepted for sending."""
        return self in (MailState.DRAFTED, MailState.DISCARDING, MailState.DRAFT_ORDERED)


class MailEvent(StrEnum):
    """What happens to a mail at one provider; any state becomes SENT once the mail is known to be out."""

    # A new attempt takes the entry over; the second after an operator ordered the mail again.
    TAKEN = "taken"
    TAKEN_ON_ORDER = "taken_on_order"
    # The provider is about to be asked to send it.
    REQUESTED = "requested"
    # The provider refused; the draft, if there is one, is kept or not.
    REFUSED = "refused"
    DRAFT_REFUSED = "draft_refused"
    # The draft is about to be removed; it is removed, or left behind.
    DISCARDED = "discarded"
    DRAFT_GONE = "draft_gone"


_S = MailState

TRANSITIONS: dict[MailEvent, dict[MailState, MailState]] = {
    MailEvent.TAKEN: {
        _S.SENDING: _S.UNKNOWN,
        _S.RESENDING: _S.UNKNOWN,
    },
    MailEvent.TAKEN_ON_ORDER: {
        _S.DRAFTED: _S.DRAFT_ORDERED,
        _S.DISCARDING: _S.DRAFT_ORDERED,
        _S.SENDING: _S.ORDERED,
        _S.UNKNOWN: _S.ORDERED,
        _S.RESENDING: _S.ORDERED,
    },
    MailEvent.REQUESTED: {
        _S.BEGUN: _S.SENDING,
        _S.DRAFTED: _S.SENDING,
        _S.DISCARDING: _S.SENDING,
        _S.UNKNOWN: _S.UNKNOWN,
        _S.ORDERED: _S.RESENDING,
        _S.DRAFT_ORDERED: _S.RESENDING,
    },
    # A refusal says nothing about an earlier request: UNKNOWN stays UNKNOWN.
    MailEvent.REFUSED: {
        _S.SENDING: _S.BEGUN,
        _S.RESENDING: _S.ORDERED,
    },
    MailEvent.DRAFT_REFUSED: {
        _S.SENDING: _S.DRAFTED,
        _S.RESENDING: _S.ORDERED,
    },
    MailEvent.DISCARDED: {
        _S.DRAFTED: _S.DISCARDING,
        _S.DISCARDING: _S.DISCARDING,
        _S.ORDERED: _S.ORDERED,
        _S.DRAFT_ORDERED: _S.DRAFT_ORDERED,
    },
    MailEvent.DRAFT_GONE: {
        _S.DRAFTED: _S.BEGUN,
        _S.DISCARDING: _S.BEGUN,
        _S.ORDERED: _S.ORDERED,
        _S.DRAFT_ORDERED: _S.DRAFT_ORDERED,
    },
}
