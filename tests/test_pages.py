"""Pages hold what stored rows say: filled by `tools/make_pages.py`, never typed."""

import json
import re
import runpy
from pathlib import Path

import pytest

from qpaths_paper.harness.registry import find
from qpaths_paper.harness.settings import rehearsed

DOCS = Path(__file__).parents[1] / "docs"
MAKE = runpy.run_path(str(DOCS.parent / "tools" / "make_pages.py"))
CLAIM = {"statement": "q = 2 wins, always", "paper": "by 1", "ours": "by 3", "verdict": "holds"}
SHEET = {"title": "Gaps", "columns": ["q", "gap"], "lines": [["1", "2.5"]], "note": "In nats."}
DIGEST = {"experiment": "fig4", "version": find("fig4").version, "num_runs": 7, "num_planned": 9, "minutes": 1.5}
DIGEST |= {"claims": [CLAIM], "sheets": [SHEET], "pictures": {"violins": "Violins."}}


@pytest.mark.parametrize("page", MAKE["pages"](), ids=lambda page: page.stem)
def test_the_page_is_what_the_script_makes(page):
    text = page.read_text()
    assert text == MAKE["filled"](text), f"run `python tools/make_pages.py`: {page.name} is not what the rows say"


def test_a_number_that_was_typed_is_replaced():
    page = "it wins <!-- rows fig4 ours q = 2 wins -->by 99<!-- end -->, in <!-- rows fig4 report --><!-- end -->."
    filled = MAKE["filled"](page, {"fig4": DIGEST})
    assert "wins -->by 3 (holds)<!-- end -->" in filled
    assert "[report](reports/fig4.html), 7 of 9 runs, 1.5 minutes in all" in filled
    assert "99" not in filled
    assert MAKE["filled"](filled, {"fig4": DIGEST}) == filled


def test_tables_and_pictures():
    page = "<!-- rows fig4 claims --><!-- end --> <!-- rows fig4 sheet Gaps --><!-- end -->"
    filled = MAKE["filled"](page + "<!-- rows fig4 picture violins --><!-- end -->", {"fig4": DIGEST})
    assert "| q = 2 wins, always | by 1 | by 3 | holds |" in filled
    assert "| q | gap |\n|---|---|\n| 1 | 2.5 |\n\nIn nats." in filled
    assert "![Violins.](pictures/fig4_violins.png)" in filled
    assert "cell Gaps; 1; gap -->2.5<" in MAKE["filled"](
        "<!-- rows fig4 cell Gaps; 1; gap --><!-- end -->", {"fig4": DIGEST}
    )


def test_a_sweep_with_other_settings_is_called_a_rehearsal():
    page = "<!-- rows fig4 claims --><!-- end --> <!-- rows fig4 report --><!-- end -->"
    filled = MAKE["filled"](page, {"fig4": {**DIGEST, "num_seeds": 3, "changed": ["seeds", "moves"]}})
    words = f"a rehearsal, because these settings are not the paper's: seeds (3 of {find('fig4').num_seeds}), `moves`"
    assert filled.count(words) == 2
    assert "by 3 (holds, in a rehearsal)<" in MAKE["filled"](
        "<!-- rows fig4 ours q = 2 wins --><!-- end -->", {"fig4": {**DIGEST, "num_seeds": 3, "changed": ["seeds"]}}
    )
    assert "rehearsal" not in MAKE["filled"](page, {"fig4": {**DIGEST, "num_seeds": 3, "changed": []}})


@pytest.mark.parametrize("stored", [{}, {"fig4": {**DIGEST, "version": 0}}], ids=["missing", "old"])
def test_missing_rows_say_which_command_makes_them(stored):
    filled = MAKE["filled"]("<!-- rows fig4 claims -->| by 99 |<!-- end -->", stored)
    assert "run `qpaths run fig4`, then `python tools/make_pages.py out`" in filled
    assert "99" not in filled


def test_a_further_sweep_of_an_experiment_has_places_and_files_with_its_name():
    other = {**DIGEST, "name": "fig4-small", "claims": [{**CLAIM, "ours": "by 2"}]}
    page = "<!-- rows fig4-small ours q = 2 wins --><!-- end --> <!-- rows fig4 ours q = 2 wins --><!-- end -->"
    page += "<!-- rows fig4-small report --><!-- end --> <!-- rows fig4-small picture violins --><!-- end -->"
    filled = MAKE["filled"](page, {"fig4": DIGEST, "fig4-small": other})
    assert (
        "fig4-small ours q = 2 wins -->by 2 (holds)<!-- end --> <!-- rows fig4 ours q = 2 wins -->by 3 (holds)"
        in filled
    )
    assert "(reports/fig4-small.html)" in filled
    assert "(pictures/fig4-small_violins.png)" in filled
    assert "run `qpaths run fig4`, then" in MAKE["filled"](page, {"fig4": DIGEST})


def test_a_place_that_names_nothing_is_an_error():
    for what in ("ours q = 3", "cell Gaps; 3; gap", "cell Gaps; 1; width"):
        with pytest.raises(ValueError, match=f"the rows of fig4 have 0 times '{what.split(' ', 1)[1]}'"):
            MAKE["filled"](f"<!-- rows fig4 {what} --><!-- end -->", {"fig4": DIGEST})


def test_digests_are_those_of_their_experiments():
    for path in (DOCS / "results").glob("*.json"):
        found = json.loads(path.read_text())
        assert path.stem in (found["experiment"], found.get("name"))
        assert path.stem.split("-")[0] == found["experiment"]
        # Those of a GPU may be unfinished; the pages say how many of the runs there are.
        is_whole = found["num_runs"] == found["num_planned"] or path.stem.startswith("omniglot")
        assert is_whole, f"{path.name} is of an unfinished sweep"
        changed = rehearsed(find(found["experiment"]), found["settings"], found["num_seeds"])
        assert found.get("changed", []) == changed, f"{path.name} does not say which settings are not the paper's"
        assert (DOCS / "reports" / f"{path.stem}.html").exists()


RESULTS = DOCS.parent / "benchmarks" / "results"
_NUMBER = re.compile(r"(?<![\w.-])\d[\d,]*(?:\.\d+)?(?![\w.]*`)")


def _blocks(text):
    """Paragraphs, items of lists and lines of tables outside of code, without what other scripts fill."""
    text = re.sub(r"```.*?```|<!-- rows.*?<!-- end -->", "", text, flags=re.DOTALL)
    for block in re.split(r"\n\s*\n", text):
        yield from re.split(r"\n(?=\||\s*(?:[-*]|\d+\.) )", block)


def _unsupported(text):
    """Numbers of 10 and more, or with a decimal point, that no file which their paragraph names has; no years."""
    wrong = []
    for block in _blocks(text):
        files = re.findall(r"benchmarks/results/(\w+\.md)", block)
        stored = " ".join((RESULTS / file).read_text() for file in files).replace(",", "")
        known = {float(number) for number in re.findall(r"\d+(?:\.\d+)?", stored)}
        plain = re.sub(r"`[^`]*`|\]\([^)]*\)|\b(?:19|20)\d\d\b", "", block)
        for number in _NUMBER.findall(plain) if files else ():
            value, digits = float(number.replace(",", "")), len(number.partition(".")[2])
            is_near = any(abs(value - other) <= 0.5001 * 10.0**-digits for other in known)
            if not is_near and (digits or value >= 10):
                wrong.append((number, block))
    return wrong


@pytest.mark.parametrize("page", [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda page: page.stem)
def test_figures_are_in_the_file_that_is_named_with_them(page):
    assert not _unsupported(page.read_text())


def test_a_figure_that_no_file_has_is_found():
    line = "| Pima | 0.0034 in 2.3 s | dynesty 0.26 | ([table](benchmarks/results/peers.md)) |"
    assert not _unsupported(line)
    assert [number for number, _ in _unsupported(line.replace("0.26", "0.41"))] == ["0.41"]
    text = "A claim of 99 seconds (2021).\n\nAnother of 0.77 nats. See (`benchmarks/results/peers.md`)."
    assert [number for number, _ in _unsupported(text)] == ["0.77"]
