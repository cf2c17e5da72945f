"""Text that comes from outside goes into PromQL only through here, so that no value can end its own string."""

import re
from collections.abc import Iterable
from typing import Final

from scaler.model import LabelMatcher
from scaler.promql.query import LABEL_NAME

OPERATORS: Final = ("=", "!=", "=~", "!~")
"""The operators of a label matcher."""

# The characters that mean something in an RE2 pattern outside a class: what Go's regexp.QuoteMeta escapes.
_RE2_META: Final = str.maketrans({char: f"\\{char}" for char in "\\.+*?()|[]{}^$"})
_NOT_PLAIN: Final = re.compile(r'["\\]|[^ -~]')
_LAST_TWO_BYTE_CODE: Final = 0xFFFF


def quote(text: str) -> str:
    r"""Write a PromQL string literal: ``a"b`` becomes ``"a\"b"``.

    All but printable ASCII is written by its number, because PromQL refuses a line feed and U+FFFD as they are.

    Args:
        text: Any text without lone surrogates.
    """
    return f'"{_NOT_PLAIN.sub(_escape, text)}"'


def literal_pattern(text: str) -> str:
    r"""Write an RE2 pattern that matches ``text`` and nothing else: ``v0.8`` becomes ``v0\.8``."""
    return text.translate(_RE2_META)


def literal_replacement(text: str) -> str:
    """Write a replacement for ``label_replace`` that stands for ``text`` itself: a dollar sign is doubled."""
    return text.replace("$", "$$")


def one_of(label: str, values: Iterable[str]) -> str:
    """Write a matcher for any of ``values``.

    Plain alternatives of plain text: Prometheus looks these up in its index, where any other pattern would be run
    on every value that the label has in the whole server.

    Args:
        label: A label's name, already known to be one.
        values: At least one value.
    """
    distinct = sorted(set(values))
    if len(distinct) == 1:
        return f"{label}={quote(distinct[0])}"
    return f"{label}=~{quote('|'.join(map(literal_pattern, distinct)))}"


def matcher_problem(matcher: LabelMatcher) -> str | None:
    """Say why a matcher cannot be written as PromQL, or None when it can."""
    if not LABEL_NAME.fullmatch(matcher.label):
        return f"{matcher.label[:80]!r} is not a label name: use letters, digits and _, not beginning with a digit"
    if matcher.operator not in OPERATORS:
        return f"{matcher.operator[:80]!r} is not a matcher's operator: use one of {' '.join(OPERATORS)}"
    return None


def matcher_text(matcher: LabelMatcher) -> str:
    """Write a matcher that ``matcher_problem`` found nothing wrong with."""
    return f"{matcher.label}{matcher.operator}{quote(matcher.value)}"


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    if char in '"\\':
        return f"\\{char}"
    code = ord(char)
    return f"\\u{code:04x}" if code <= _LAST_TWO_BYTE_CODE else f"\\U{code:08x}"
