"""Templates, for declared workflows and triggers alike.

A value that is exactly one `{{ expression }}` is evaluated and keeps its type; any other string has its `{{ }}` filled
in and stays a string. There are no statements, no calls and no attributes of Python objects: a dot looks a key up, so
`{{ input.items }}` is the key `items`. A name that does not exist is an error. The values are plain JSON on both sides.

An expression is short and has few filters. Whatever looks at a whole value measures it first, and takes time in
proportion to its size. So the sum of what a rendering measures, its work, bounds its time.
"""

from atlas.engine.templates.expressions import TemplateError, check_expressions, is_constant, references, template_names
from atlas.engine.templates.filters import MAX_WORK, Budget
from atlas.engine.templates.render import check_template, evaluate, render
from atlas.engine.templates.turns import MAX_HOLD_SECONDS, compile_in_turns

__all__ = [
    "MAX_HOLD_SECONDS",
    "MAX_WORK",
    "Budget",
    "TemplateError",
    "check_expressions",
    "check_template",
    "compile_in_turns",
    "evaluate",
    "is_constant",
    "references",
    "render",
    "template_names",
]
