"""Templates: types are kept, statements and Python are not there, and nothing grows without bound."""

import contextlib
import contextvars
import functools
import time

import pytest

from atlas.engine.templates import TemplateError, check_expressions, check_template, evaluate, references, render

SCOPE = {
    "input": {"n": 123, "text": "123", "items": [1, 2], "none": None, "keys": {"get": "value"}, "flag": False},
    "deep": functools.reduce(lambda inner, _: [inner], range(300), 1),
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
    ("template", "reason"),
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
        ("{{ input.absent is even }}", "there is no test 'even'"),
        ("{{ input.absent | upper }}", "there is no 'absent'"),
        ("{{ input.absent == 1 }}", "there is no 'absent'"),
        ("{{ 'x' ~ input.absent }}", "there is no 'absent'"),
        ("{{ input.absent.deeper }}", "there is no 'absent'"),
        ("{{ input.text.upper() }}", "calls are not allowed"),
        ("{{ range(5) }}", "calls are not allowed"),
        ("{{ input.items[1:] }}", "slices are not allowed"),
        ("{{ 'x' | default(*input.items) }}", "there is no filter 'default'"),
        ("{{ input.__class__ }}", "there is no '__class__'"),
        ("{{ ''.__class__.__mro__ }}", "there is no '__class__'"),
        ("{{ input | attr('get') }}", "there is no filter 'attr'"),
        ("{{ input.n | map('x') }}", "there is no filter 'map'"),
        ("{{ input.n is callable }}", "there is no test 'callable'"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ input.n + 'x' }}", "takes two numbers"),
        ("{{ 2**60 * 2**60 }}", "beyond 64 bits"),
        ("n={{ 2**60 * 2**60 }}", "beyond 64 bits"),
        ("{{ [1e300 * 1e300] }}", "inf is not a JSON value"),
        ('{{ "\\ud800" }}', "surrogates not allowed"),
        ('x{{ "\\ud800" }}', "surrogates not allowed"),
        ('{{ {"\\ud800": 1} }}', "surrogates not allowed"),
        ("x\ud800", "not JSON"),
        ("{{ 'abcdefghij' | truncate(1) }}", "expected length"),
        ("{{ 1 | reverse }}", "must be iterable"),
        ("{{ input.text | sort }}", "takes a list"),
        ("{{ input.text | join(',') }}", "takes a list"),
        ("x{{ deep }}", "Recursion limit"),
        ("{{ deep }}", "Recursion limit"),
    ],
)
def test_what_cannot_be_filled_in_is_an_error_with_its_reason(template, reason):
    with pytest.raises(TemplateError, match=reason):
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
        ["{{ '\"'" + " | tojson" * 20 + " }}"] * 20,
        ["{{ 'x'" + " | list | string" * 10 + " }}"] * 20,
        "{{ input.long" + " ~ input.long" * 30 + " }}",
        "{{ input.long" + " + input.long" * 30 + " }}",
        "{{ input.many" + " + input.many" * 30 + " }}",
        ["{{ input.many" + " | sort" * 20 + " }}"] * 4,
        ["{{ input.many" + " | unique | list | reverse" * 6 + " }}"] * 4,
        ["{{ [" + "input.many, " * 38 + "] | tojson | length }}"] * 2,
        "{{ input.lists | sum(start=[]) | length }}",
        "{{ input.lists | sum(start=input.lists) | length }}",
        "{{ 1 | round(-3000000) }}",
        ["{{ input.many | tojson | length }}"] * 1000,
        ["{{ 'x' in input.many }}"] * 2000,
        ["{{ 'x' not in input.many }}"] * 2000,
        ["{{ input.many == input.twin }}"] * 2000,
        ["{{ [[input.many]] < [[input.twin]] }}"] * 2000,
        ["{{ input.long == input.other }}"] * 2000,
        ["{{ [input.many, input.twin] | max | length }}"] * 2000,
        ["{{ [input.many] | lower | length }}"] * 2000,
        ["{{ 'x' | replace(input.many, 'y') }}"] * 2000,
        "{{ input.words | max(attribute=input.path) }}",
        "{{ input.words | sort(attribute=input.paths) }}",
        "{{ (HEX * HEX) % HEX > 1 }}".replace("HEX", "(input.digits | int(0, 16))"),
        "{{ (input.digits | int(0, 16)) // 3 > 1 }}",
    ],
)
def test_a_template_that_would_grow_without_bound_is_refused_at_once(template):
    many = {"many": [*range(10_000)], "twin": [*range(10_000)], "lists": [[1]] * 50_000}
    texts = {"long": "x" * 200_000, "other": "x" * 199_999 + "y", "digits": "f" * 200_000}
    paths = {"words": ["x"] * 200, "path": "0." * 50_000 + "0", "paths": "0," * 50_000 + "0"}
    scope = {"input": {**many, **texts, **paths}}
    began = time.process_time()

    with pytest.raises(TemplateError):
        render(template, scope)
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize(
    "template",
    [
        ["{{ input.words" + " | upper | lower" * 9 + " | length }}"] * 40,
        ["{{ input.words | split | sort | length }}"] * 200,
        ["{{ (input.words | split | max) ~ (input.words | split | min) }}"] * 200,
        ["{{ input.words | split | unique | join(' ') | length }}"] * 200,
        ["{{ input.texts" + " | sort" * 19 + " | length }}"] * 40,
        ["{{ input.nested" + " | sort(attribute='x')" * 19 + " | length }}"] * 40,
        ["{{ [" + "input.nested == input.twins, " * 16 + "] | length }}"] * 40,
        ["{{ [" + "input.n in input.nested, " * 19 + "] | length }}"] * 40,
        ["{{ [" + "input.needle not in input.hay, " * 15 + "] | length }}"] * 40,
        ["{{ [" + "input.long | reverse, " * 19 + "] | length }}"] * 20,
        ["{{ input.long }}"] * 100,
    ],
)
def test_a_template_that_looks_at_much_and_makes_little_is_refused_too(template):
    texts = ["ä" * 60_000 + str(number) for number in range(4)]
    scope = {
        "input": {
            "n": 0,
            "long": "x" * 200_000,
            "words": "ab " * 80_000,
            "texts": texts,
            "nested": [{"x": text} for text in texts],
            "twins": [{"x": text[:-1] + text[-1]} for text in texts],
            "hay": "a" * 120_000,
            "needle": "a" * 60_000 + "b",
        }
    }
    began = time.process_time()

    with pytest.raises(TemplateError, match="takes more work"):
        render(template, scope)
    assert time.process_time() - began < 1.5


def test_depth_and_length_have_a_limit():
    deep: object = "{{ input.n }}"
    for _ in range(40):
        deep = [deep]

    with pytest.raises(TemplateError, match="nested deeper"):
        render(deep, SCOPE)
    with pytest.raises(TemplateError, match="longer than"):
        render("{{ input.n }}" + "x" * 20_000, SCOPE)


@pytest.mark.parametrize(
    "expression",
    [
        "[" * 240 + "]" * 240,
        "(" * 240 + "1" + ")" * 240,
        "not " * 120 + "1",
        "-" * 450 + "1",
        "input" + ".a" * 240,
        "input" + " + input" * 50,
    ],
)
def test_an_expression_nested_too_deeply_is_refused_when_it_is_checked(expression):
    [found] = check_template({"x": f"{{{{ {expression} }}}}"}, names={"input"})

    assert found.field == "x"
    assert "nested too deeply" in found.reason


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ input" + " | list" * 21 + " }}", "has more than 20 filters"),
        ("{{ input" + " | d" * 180 + " }}", "longer than 500 characters"),
        ("{{ '" + "x" * 500 + "' }}", "longer than 500 characters"),
        ("{{ 1 }}" * 101, "contains more than 100 {{ }}"),
        ("{{ " + "1" * 400 + " }}", "a whole number beyond 64 bits"),
        ("{{ 0x" + "f" * 400 + " }}", "a whole number beyond 64 bits"),
        ("{{ 1e999 }}", "inf is not a JSON value"),
    ],
)
def test_what_is_too_long_is_refused_when_it_is_checked(template, reason):
    [found] = check_template({"x": template}, names={"input"})

    assert found.field == "x"
    assert reason in found.reason


def test_an_expression_at_every_limit_is_rendered():
    many = "input.items" + " | reverse | list" * 10
    expression = "{{ " + many + " ~ '" + "x" * (500 - len(many) - len(" ~ ''")) + "' }}"

    assert render(expression, SCOPE).startswith("[1, 2]xxx")
    assert render("{{ input" + "['keys']" + " | d" * 20 + " }}", SCOPE) == {"get": "value"}
    assert render("{{ 1" + " + 1" * 36 + " }}", SCOPE) == 37


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"x": ["{{ 1 }}"] * 1000}, None),
        ({"x": ["{{ 1 }}"] * 1001}, "contains more than 1,000 {{ }}"),
        ({"x": ["{{ '" + "x" * 400 + "' }}"] * 39}, None),
        ({"x": ["{{ '" + "x" * 400 + "' }}"] * 42}, "contains more than 16 KiB of {{ }}"),
        ({"x": ["{{ '}}" + "x" * 400 + "' }}"] * 42}, "contains more than 16 KiB of {{ }}"),
        ({"x": ["{{ '" + "x" * 400 + "{{' }}"] * 42}, "contains more than 16 KiB of {{ }}"),
        ({"x": ["{{ input.n }}" + "x" * 5000] * 100}, None),
    ],
)
def test_a_document_holds_only_so_many_expressions(document, reason):
    assert [error.reason for error in check_expressions(document, "")] == ([] if reason is None else [reason])


@pytest.mark.long
def test_a_document_of_as_many_expressions_as_it_may_hold_is_checked_and_rendered_soon():
    template = [f"{{{{ input.n +  {number} }}}}" for number in range(850)]
    assert check_expressions(template, "") == []
    began = time.process_time()

    assert check_template(template, names={"input"}) == []
    assert render(template, SCOPE)[-1] == 123 + 849
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ input.items ~ true ~ 1.5 ~ none }}", "[1, 2]True1.5None"),
        ("{{ [1] | string }}", "[1]"),
        ("{{ input.items + [3] }}", [1, 2, 3]),
        ("{{ 'a' + 'b' }}", "ab"),
        ("{{ input.items | reverse | unique | list }}", [2, 1]),
        ("{{ steps.a.output.y | sum(attribute='z') }}", 1.5),
        ("{{ input.text | int + 'ff' | int(0, 16) + '1e2' | int + 'x' | int(7) }}", 123 + 255 + 100 + 7),
        ("{{ input.n // 2 % 7 }}", 5),
        ("{{ 2.5 // 2 }}", 1.0),
        ("{{ 9**9 // 3**9 - -1 }}", 3**9 + 1),
        ("{{ [input.n is defined, input.absent is defined, input.none is none] }}", [True, False, True]),
        ("{{ input.n in (122, 123) and not input.flag }}", True),
        ("{{ ' a,b ' | trim | split(',') | join('-') }}", "a-b"),
        ("{{ 2.345 | round(1) }}", 2.3),
        ("{{ {'b': 1, 'a': 2} | items | sort | list }}", [["a", 2], ["b", 1]]),
        ("{{ [1 < input.n <= 123 != 5, 1 < 200 < input.n, 2 > 1 >= 1] }}", [True, False, True]),
        ("{{ [2 in input.items, 'n' in input, 9 not in input.items, 'bc' in 'abcd'] }}", [True] * 4),
        ("{{ [input.items == [1, 2], input.items < [1, 3], input.keys == {'get': 'value'}] }}", [True] * 3),
    ],
)
def test_operators_and_filters_over_json(template, expected):
    assert render(template, SCOPE) == expected


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


@pytest.mark.parametrize("template", ["{{ input.n }}", "{{ input.nothing }}"])
def test_a_rendering_leaves_no_trace_in_the_context_of_its_caller(template):
    before = contextvars.copy_context()
    with contextlib.suppress(TemplateError):
        render(template, SCOPE)
    with contextlib.suppress(TemplateError):
        evaluate(template, SCOPE)
    assert contextvars.copy_context() == before
