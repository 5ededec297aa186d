"""A hook of the site: cells of tables carry the title of their column, which a phone shows when rows become blocks."""

import html
import re

_TABLE = re.compile(r"<table(?P<start>[^>]*)>(?P<body>.*?)</table>", flags=re.DOTALL)
_WIDE = 7
"""Tables with more columns have less room between them."""


def on_page_content(content, **_):
    """Label the cells of every table with more than two columns."""
    return _TABLE.sub(_labeled, content)


def _labeled(match):
    titles = [
        html.escape(html.unescape(re.sub(r"<[^>]+>", "", title)).strip(), quote=True)
        for title in re.findall(r"<th[^>]*>(.*?)</th>", match["body"], flags=re.DOTALL)
    ]
    if len(titles) < 3:
        return match[0]

    def row(found):
        labels = iter(titles)
        return re.sub(r"<td(?=[\s>])", lambda _: f'<td data-label="{next(labels, "")}"', found[0])

    start = match["start"] + (" data-wide" if len(titles) > _WIDE else "")
    return f"<table{start}>{re.sub(r'<tr.*?</tr>', row, match['body'], flags=re.DOTALL)}</table>"
