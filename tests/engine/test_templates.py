"""Templates: types are kept, statements and Python are not there, and nothing grows without bound."""

import time

import pytest

from engine.templates import TemplateError, check_template, evaluate, references, render

SCOPE = {
    "input": {"n": 123, "text": "123", "items": [1, 2], "none": None, "keys": {"get": "value"}, "flag": False},
    "steps": {"a": {"output": {"y": [{"z": 1.5}]}}},
}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ input.n }}", 123),
        ("{{ input.text }}", "123"),
        ("{{input.items}}", [1, 2]),
        ("{{ input.none }}", None),
        ("{{ input.flag }}", False),
        ("{{ steps.a.output.y[0].z }}", 1.5),
        ("{{ input.keys.get }}", "value"),
        ("{{ input['n'] + 1 }}", 124),
        ("{{ input.items | length > 1 }}", True),
        ("{{ input.absent | default('x') }}", "x"),
        ("{{ {'a': [input.n]} }}", {"a": [123]}),
        ("{{ '}}' }}", "}}"),
        (" {{ input.n }}", " 123"),
        ("n={{ input.n }}, {{ input.items }}, {{ input.none }}, {{ input.flag }}", "n=123, [1,2], , false"),
        ("plain", "plain"),
        ("line\n{{ input.n }}\n", "line\n123\n"),
        ({"a": ["{{ input.n }}", {"b": "{{ input.text }}"}], "c": 5}, {"a": [123, {"b": "123"}], "c": 5}),
        (None, None),
        (7, 7),
    ],
)
def test_a_single_expression_keeps_its_type_and_anything_else_is_text(template, expected):
    rendered = render(template, SCOPE)

    assert rendered == expected
    assert type(rendered) is type(expected)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ input.absent }}", "there is no 'absent'"),
        ("{{ nobody }}", "'nobody' is undefined"),
        ("Dear {{ input.absent }}", "there is no 'absent'"),
        ("{{ [nobody] }}", "'nobody' is undefined"),
        ("{{ 1 if input.flag }}", "no else section"),
        ("{% if true %}x{% endif %}", "statement"),
        ("{# note #}", "comment"),
        ("{% raw %}{{ x }}{% endraw %}", "statement"),
        ("{{ input.n", "without closing"),
        ("{{ }}", "Expected an expression"),
        ("{{ input.absent.deeper }}", "there is no 'absent'"),
        ("{{ input.text.upper() }}", "calls are not allowed"),
        ("{{ range(5) }}", "calls are not allowed"),
        ("{{ input.__class__ }}", "there is no '__class__'"),
        ("{{ ''.__class__.__mro__ }}", "there is no '__class__'"),
        ("{{ input | attr('get') }}", "there is no filter 'attr'"),
        ("{{ input.n | map('x') }}", "there is no filter 'map'"),
        ("{{ input.n is callable }}", "there is no test 'callable'"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ input.n + 'x' }}", "unsupported operand"),
    ],
)
def test_what_cannot_be_filled_in_is_an_error_with_its_reason(template, words):
    with pytest.raises(TemplateError, match=words):
        render({"field": template}, SCOPE)


@pytest.mark.parametrize(
    "template",
    [
        "{{ 'a' * 1000000000 }}",
        "{{ [0] * 1000000000 }}",
        "{{ 10 ** 10 ** 10 }}",
        "{{ 9 ** 999999999 }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ input.long | replace('x', input.long) }}",
        "{{ input.many | join(input.long) }}",
        "{{ input.long }}{{ input.long }}",
    ],
)
def test_a_template_that_would_grow_without_bound_is_refused_in_a_moment(template):
    scope = {"input": {"long": "x" * 200_000, "many": [1] * 10_000}}
    began = time.perf_counter()

    with pytest.raises(TemplateError):
        render(template, scope)
    assert time.perf_counter() - began < 0.5


def test_depth_and_length_have_a_limit():
    deep: object = "{{ input.n }}"
    for _ in range(40):
        deep = [deep]

    with pytest.raises(TemplateError, match="nested deeper"):
        render(deep, SCOPE)
    with pytest.raises(TemplateError, match="longer than"):
        render("{{ input.n }}" + "x" * 20_000, SCOPE)


def test_a_check_names_every_mistake_with_its_path():
    found = check_template(
        {"to": "{{ inptu.x }}", "list": ["fine", "{{ input. }}"], "deep": {"x": "{% set a = 1 %}"}}, names={"input"}
    )

    assert [error.field for error in found] == ["to", "list[1]", "deep.x"]
    assert found[0].reason == "'inptu' is not defined here (known: input)"


def test_references_are_the_paths_that_are_read():
    assert references(["{{ steps.a.output.y }}", {"x": "{{ input['n'] ~ item }}"}]) == {
        ("steps", "a", "output", "y"),
        ("input", "n"),
        ("item",),
    }


@pytest.mark.parametrize(
    ("condition", "expected"), [("input.n > 5", True), ("{{ input.flag }}", False), ("not input.flag", True)]
)
def test_a_condition_may_leave_the_braces_out(condition, expected):
    assert evaluate(condition, SCOPE) is expected
    assert check_template(condition, condition=True) == []
