"""Retry policies and dedupe keys: pure functions."""

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas.engine.jobs.backoff import AGENT, ATLAS, CAPPED, RetryPolicy, backoff_delay_ms, can_retry, policy_of
from atlas.engine.jobs.new_jobs.new_job import make_dedupe_key
from atlas.engine.jobs.verdicts import RetryAfter, Snooze
from atlas.errors import InvalidInput


def test_the_default_policy_doubles_from_ten_seconds_up_to_an_hour():
    assert [ATLAS.exact_delay(n) for n in range(5)] == [10, 20, 40, 80, 160]
    assert ATLAS.exact_delay(60) == 3600


def test_the_capped_policy_counts_after_the_increment_and_ends_at_a_minute():
    assert [backoff_delay_ms(n) for n in range(9)] == [1000, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000]
    assert [CAPPED.exact_delay(n) * 1000 for n in range(6)] == [backoff_delay_ms(n + 1) for n in range(6)]
    assert CAPPED.max_retries == 5
    assert policy_of(CAPPED.as_json()) == CAPPED
    assert max(CAPPED.delay(n) for n in range(6, 20) for _ in range(50)) <= 60
    assert 1 <= CAPPED.delay(0) <= 1.1


def test_the_agent_policy_doubles_from_two_seconds_twice():
    assert [AGENT.exact_delay(n) for n in range(3)] == [2, 4, 8]
    assert AGENT.max_retries == 2


@given(st.integers(min_value=0, max_value=10**9))
def test_jitter_adds_up_to_a_tenth_and_never_takes_away(count):
    exact = ATLAS.exact_delay(count)
    assert exact <= ATLAS.delay(count) <= exact * 1.1


def test_no_delay_is_longer_than_a_hundred_years():
    century = 100 * 365 * 86_400
    endless = RetryPolicy(base=1e12, cap=1e12, jitter=5)

    assert endless.delay(0) == century
    assert [RetryAfter(delay).delay for delay in (1e12, math.inf, timedelta.max, 5)] == [century] * 3 + [5]
    assert Snooze(1e300).delay == century
    with pytest.raises(InvalidInput, match="is not a number of seconds"):
        RetryAfter(math.nan)


@pytest.mark.parametrize(
    ("status", "attempts", "most", "expected"),
    [
        ("failed", 0, 5, True),
        ("failed", 4, 5, True),
        ("failed", 5, 5, False),
        ("succeeded", 0, 5, False),
        ("success", 0, 5, False),
        ("running", 0, 5, False),
        ("queued", 0, 5, True),
        ("queued", 5, 5, False),
    ],
)
def test_a_job_that_neither_runs_nor_succeeded_can_be_retried_while_attempts_are_left(status, attempts, most, expected):
    assert can_retry(status, attempts, most) is expected


def test_a_custom_policy_is_named_by_its_numbers():
    policy = policy_of({"base": 5, "factor": 3, "cap": 100, "jitter": 0})
    assert [policy.delay(n) for n in range(4)] == [5, 15, 45, 100]
    assert policy_of(policy.as_json()) == policy
    assert policy_of("agent") is AGENT
    assert isinstance(policy_of(None), RetryPolicy)


@pytest.mark.parametrize("wrong", ["never", {"base": -1}, {"speed": 3}, {"base": "soon"}])
def test_a_wrong_policy_is_refused(wrong):
    with pytest.raises(InvalidInput):
        policy_of(wrong)


json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def shuffled(value):
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(list(value))}
    return [shuffled(one) for one in value] if isinstance(value, list) else value


@given(st.dictionaries(st.text(), json, max_size=5))
def test_a_dedupe_key_does_not_depend_on_the_order_of_keys(payload):
    assert make_dedupe_key("t", "acme", payload) == make_dedupe_key("t", "acme", shuffled(payload))


def test_a_dedupe_key_names_type_tenant_and_payload():
    assert make_dedupe_key("t", None, {"b": 1, "a": [2]}) == 't::global::{"a":[2],"b":1}'
    assert make_dedupe_key("t", "acme", None) == "t::acme::{}"
    assert make_dedupe_key("t", "acme", {"a": 1}) != make_dedupe_key("t", "acme", {"a": "1"})
