"""Subjects of tenants' tokens: as people read them, none is Atlas's own name."""

import pytest

from atlas.engine.access.subjects import RESERVED, check_subject, looks_like
from atlas.engine.access.tokens import add_token
from atlas.engine.tenants.tenants import add_tenant
from atlas.errors import InvalidInput
from tests.support import ALICE


@pytest.mark.parametrize("name", RESERVED)
def test_no_name_of_atlas_itself_is_given_in_any_case_or_with_spaces(name):
    for subject in (name, name.upper(), name.title(), f" {name}", f"{name} ", f"{name}\u00a0", f"{name}.", f"_{name}"):
        assert check_subject(subject), subject


@pytest.mark.parametrize(
    ("subject", "reason"),
    [
        ("oper\u0430tor", "mixes letters of Cyrillic and Latin"),
        ("\u03bfperator", "mixes letters of Greek and Latin"),
        ("\u0455\u0443\u0455\u0442\u0435\u043c", "reads like a name of Atlas itself"),
        ("\uff4fperator", "must be written plainly, as 'operator'"),
        ("operator ", "must be written plainly, as 'operator'"),
        ("ann  lee", "must be written plainly, as 'ann lee'"),
        ("oper\u200bator", "not a letter of an alphabet in use"),
        ("\u1d0fperator", "not a letter of an alphabet in use"),
        ("\u13aalice", "not a letter of an alphabet in use"),
        ("0perator", "reads like a name of Atlas itself"),
        ("opérator", "reads like a name of Atlas itself"),
        ("systern", "reads like a name of Atlas itself"),
        ("CLI:dana", "reads like a name of Atlas itself"),
    ],
)
def test_a_look_alike_is_refused_with_the_reason(subject, reason):
    [error] = check_subject(subject)
    assert (error.field, reason in error.reason) == ("subject", True), error


@pytest.mark.parametrize(
    "subject",
    [
        "alice",
        "billing-worker@acme",
        "Jürgen Müller",
        "Łukasz",
        "O’Brien",
        "Nguyễn Văn Ơn",
        "Оскар",
        "Ελένη",
        "田中たろう",
        "王wei",
        "김철수",
        "שרה",
        "operator-of-the-crane",
    ],
)
def test_names_of_people_and_programs_stay_possible(subject):
    assert check_subject(subject) == []


def test_names_without_letters_are_not_all_alike():
    assert not looks_like("--", ["++"])


async def test_only_tokens_of_a_tenant_are_held_to_it(conn):
    acme = await add_tenant(conn, slug="acme", name="Acme", actor=ALICE)
    with pytest.raises(InvalidInput, match="reads like a name of Atlas itself"):
        await add_token(conn, subject="Scheduler", role="enqueuer", tenant=acme, actor=ALICE)

    token, _ = await add_token(conn, subject="operator", role="operator", actor=ALICE)
    assert token.subject == "operator"
