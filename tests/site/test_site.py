"""The site as a whole: one palette, links that are checked, equations without scripts, a current citation."""

import re
import runpy
from pathlib import Path

import pytest
import yaml

import qpaths

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def _palettes(file):
    """The colors of a style sheet, light and dark."""
    names = "ink|soft|line|ground|page|base|target|accent|good|bad|open"
    found = re.findall(rf"--({names}): (#[0-9a-f]{{6}})", file.read_text())
    assert len(found) == 22, f"{file.name} does not define each color twice"
    return dict(found[:11]), dict(found[11:])


def test_explorer_site_and_report_have_one_palette():
    sheets = [
        DOCS / "explorer" / "explorer.css",
        DOCS / "stylesheets" / "site.css",
        ROOT / "paper" / "src" / "qpaths_paper" / "harness" / "report.css",
    ]
    first, *others = map(_palettes, sheets)
    assert all(other == first for other in others)


def _luminance(color):
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_can_be_read(scheme):
    """The contrast that WCAG 2 asks of text, 4.5, for every color that text has."""
    colors = _palettes(DOCS / "explorer" / "explorer.css")[scheme]
    for ground in ("page", "ground"):
        for name in ("ink", "soft", "base", "target", "accent", "good", "bad", "open"):
            dark, light = sorted([_luminance(colors[name]), _luminance(colors[ground])])
            assert (light + 0.05) / (dark + 0.05) >= 4.5, f"{name} on {ground}"


GOOD = """<link rel="stylesheet" href="style.css"><h1 id="top">a</h1><a href="other/">b</a><a href="#top">c</a>
<a href="other/#here">d</a><a href="https://example.org/page">e</a>"""

WRONG = {
    "links to gone/, which is not there": '<a href="gone/">x</a>',
    "links to other/#away, and there is no such anchor": '<a href="other/#away">x</a>',
    "links to #away, and there is no such anchor": '<a href="#away">x</a>',
    "links to lost.png, which is not there": '<img src="lost.png">',
    "loads https://example.org/code.js from another host": '<script src="https://example.org/code.js"></script>',
}


@pytest.fixture
def site(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "index.html").write_text('<h2 id="here">x</h2><a href="../index.html#top">y</a>')
    (tmp_path / "style.css").write_text("body { color: black; }")
    (tmp_path / "index.html").write_text(GOOD)
    return tmp_path


def _check(site):
    return runpy.run_path(str(ROOT / "tools" / "check_links.py"))["check"](site)


def test_a_good_site_has_no_dead_links(site):
    assert _check(site) == []


@pytest.mark.parametrize("problem", WRONG)
def test_a_dead_link_is_found(site, problem):
    (site / "index.html").write_text(GOOD + WRONG[problem])
    assert _check(site) == [f"index.html: {problem}"]


def test_a_font_of_another_host_is_found(site):
    (site / "style.css").write_text('@font-face { src: url("https://example.org/font.woff2"); }')
    assert _check(site) == ["style.css: loads https://example.org/font.woff2 from another host"]


def test_equations_become_mathml():
    pytest.importorskip("latex2mathml", reason="the docs extra has it")
    convert = runpy.run_path(str(ROOT / "tools" / "build_math.py"))["on_page_content"]
    page = convert(
        r'<p>So <span class="arithmatex">\(a &lt; b\)</span> and <div class="arithmatex">\[Z = 1\]</div></p>'
    )
    assert "arithmatex" not in page
    assert re.search(r'<math [^>]*display="inline">.*<mo>&#x0003C;</mo>.*</math> and <math [^>]*display="block">', page)


def test_the_citation_is_current():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert str(citation["version"]) == qpaths.__version__


def test_the_explorer_is_in_the_navigation():
    assert "explorer/index.html" in (ROOT / "mkdocs.yml").read_text()


def test_cells_say_their_column_where_rows_become_blocks():
    convert = runpy.run_path(str(ROOT / "tools" / "build_tables.py"))["on_page_content"]
    head = "<thead><tr><th>q</th><th><code>a</code> &lt; b</th><th>c</th></tr></thead>"
    page = convert(f"<table>{head}<tbody><tr><td>1</td><td align='left'>2</td><td>3</td></tr></tbody></table>")
    assert '<td data-label="q">1</td><td data-label="a &lt; b" align=\'left\'>2</td><td data-label="c">3' in page
    assert "<th>q</th>" in page
    two = "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody></table>"
    assert convert(two) == two
    many = "<table><tr>" + "<th>x</th>" * 8 + "</tr></table>"
    assert "<table data-wide>" in convert(many)
