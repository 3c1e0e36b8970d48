"""Templates, for declared workflows and triggers alike.

A value that is exactly one `{{ expression }}` is evaluated and keeps its type; any other string has its `{{ }}` filled
in and stays a string. There are no statements, no calls and no attributes of Python objects: a dot looks a key up, so
`{{ input.items }}` is the key `items`. A name that does not exist is an error. The values are plain JSON on both sides.
"""

from atlas.engine.templates.budget import MOST_WORK, Budget
from atlas.engine.templates.expressions import TemplateError, check_number, references
from atlas.engine.templates.render import check_template, evaluate, render

__all__ = ["MOST_WORK", "Budget", "TemplateError", "check_number", "check_template", "evaluate", "references", "render"]
