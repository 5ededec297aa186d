"""An MkDocs hook: equations become MathML when the site is built, so that no script has to draw them."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

_EQUATION = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', flags=re.DOTALL)


def _mathml(found: re.Match[str]) -> str:
    display = "block" if found[2] == "[" else "inline"
    return convert(html.unescape(found[3]), display=display)


def on_page_content(content: str, **rest: Any) -> str:
    """Replace every equation that `pymdownx.arithmatex` has marked."""
    return _EQUATION.sub(_mathml, content)
