"""The page: complete, self-contained, and opened by a real browser without complaint."""

import collections
import dataclasses
import html.parser
import json
import shutil
import subprocess

import pytest
from typer.testing import CliRunner

from qpaths.cli import app
from qpaths_paper.harness import folders
from qpaths_paper.harness import page as page_module
from qpaths_paper.harness.errors import UserError
from qpaths_paper.harness.experiment import Run
from qpaths_paper.harness.page import render
from qpaths_paper.harness.registry import find
from qpaths_paper.harness.store import FILE, Store

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def _store(folder, name, rows):
    """A folder with these rows."""
    experiment = find(name)
    seeds = max(row.seed for row in rows) + 1
    with Store.create(folder, experiment, experiment.settings, seeds) as store:
        store.connection.execute("PRAGMA synchronous = OFF")
        environment = store.add_environment({"qpaths": "test"})
        for row in rows:
            store.add(Run(row.settings, row.seed), dict(row.values), environment, 0.5)


class _Page(html.parser.HTMLParser):
    """What a page refers to, and how deep its tags are nested."""

    def __init__(self, text):
        super().__init__()
        self.images, self.links, self.ids, self.open = [], [], [], []
        self.alternatives, self.headers, self.counts = [], [], collections.Counter()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.counts[tag] += 1
        self.alternatives += [attrs.get("alt")] if tag == "img" else []
        self.headers += [attrs.get("scope")] if tag == "th" else []
        self.ids += [attrs["id"]] if "id" in attrs else []
        self.images += [attrs["src"]] if tag == "img" else []
        self.links += [attrs["href"]] if "href" in attrs else []
        if tag not in ("meta", "img", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def text(tmp_path_factory, synthetic):
    """The page of a folder with three experiments in it."""
    folder = tmp_path_factory.mktemp("three")
    for name in ("fig4", "table1", "fig_varying_n"):
        _store(folder / name, name, synthetic(name)[::3])
    done = CliRunner().invoke(app, ["report", str(folder)])
    assert done.exit_code == 0, done.output
    return (folder / "report.html").read_text()


def test_the_page_needs_no_other_file(text):
    page = _Page(text)
    assert page.open == []
    assert len(page.images) == 3
    assert all(image.startswith("data:image/svg+xml;base64,") for image in page.images)
    assert len(set(page.ids)) == len(page.ids)
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert "http" not in text.replace('charset="utf-8"', "")
    assert len(text) < 3_000_000
    # What a reader looks for: the paper's figure beside ours, settings, verdicts, and that runs are missing.
    planned = f" of {len(find('table1').runs(find('table1').settings, 10))} runs"
    for words in ("79.02 (39.10)", "num_particles = 10000", "holds", planned, "pima, linear, 1 move"):
        assert words in text


def test_tables_and_pictures_have_words_for_those_who_cannot_see(text):
    page = _Page(text)
    assert page.counts["caption"] == page.counts["table"] > 3
    assert set(page.headers) == {"col", "row"}
    assert page.headers.count("row") == page.counts["tr"] - page.counts["table"]  # all lines but the heads
    assert len(set(page.alternatives)) == 3
    assert all("Horizontal axis: " in words and "$" not in words for words in page.alternatives)


def test_the_same_rows_give_the_same_page(tmp_path, synthetic):
    _store(tmp_path, "fig_varying_n", synthetic("fig_varying_n")[:9])
    assert render(folders.load_all(tmp_path)) == render(folders.load_all(tmp_path))


@pytest.mark.skipif(BROWSER is None, reason="no browser: install chromium to open the page in one")
def test_a_browser_shows_every_picture(text, tmp_path):
    """Headless Chromium reports the size of each picture and every error, through the title of the page."""
    probe = """<script>
      window.errors = []; window.addEventListener("error", e => window.errors.push(e.message || e.target.src), true);
      window.addEventListener("load", () => { document.title = JSON.stringify({
        pictures: [...document.images].map(i => i.complete ? i.naturalWidth : 0), errors: window.errors,
        wide: document.documentElement.scrollWidth - window.innerWidth}); });</script></head>"""
    page = tmp_path / "page.html"
    page.write_text(text.replace("</head>", probe, 1))
    command = [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--window-size=500,800",
        "--enable-logging=stderr",
        "--virtual-time-budget=5000",
        "--dump-dom",
        page.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    title = done.stdout.split("<title>")[1].split("</title>")[0]
    assert title.startswith("{"), done.stderr
    found = json.loads(title)
    assert len(found["pictures"]) == 3
    assert min(found["pictures"]) > 400
    assert found["errors"] == []
    assert found["wide"] <= 0, "the page scrolls sideways on a phone"
    assert "CONSOLE" not in done.stderr


def test_words_are_not_taken_for_tags(tmp_path, synthetic):
    rows = synthetic("fig_varying_n")[:3]
    _store(tmp_path, "fig_varying_n", rows)
    stored = folders.load(tmp_path)
    stored.environments[0]["machine"] = "<script>alert(1)</script>"
    assert "<script>" not in render([stored])


def test_a_folder_without_runs_is_told(tmp_path):
    with pytest.raises(UserError, match="holds no runs"):
        folders.load_all(tmp_path)
    with pytest.raises(UserError, match="there is no folder"):
        folders.load_all(tmp_path / "nowhere")
    done = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert done.exit_code == 2
    assert not (tmp_path / "report.html").exists()


def test_rows_of_another_version_are_not_drawn(tmp_path, synthetic, monkeypatch):
    _store(tmp_path, "fig4", synthetic("fig4")[:3])
    version = find("fig4").version
    newer = dataclasses.replace(find("fig4"), version=version + 1)
    monkeypatch.setattr(folders, "find", lambda name: newer)
    with pytest.raises(UserError, match=f"of version {version} of fig4, and this qpaths draws version {version + 1}"):
        folders.load(tmp_path)


def _execute(folder, statement):
    with Store.open(folder) as store, store.connection:
        store.connection.execute(statement)


def test_a_bad_folder_does_not_keep_the_others_from_the_page(tmp_path, synthetic):
    for name in ("bad", "good", "old", "short"):
        _store(tmp_path / name, "fig_varying_n", synthetic("fig_varying_n")[:3])
    _execute(tmp_path / "bad", "UPDATE rows SET content = '[]' WHERE id = 2")
    _execute(tmp_path / "old", "UPDATE meta SET value = '1' WHERE name = 'version'")
    _execute(tmp_path / "short", "UPDATE meta SET value = '{}' WHERE name = 'settings'")
    done = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert done.exit_code == 2
    assert "3 folders could not be drawn. The first: row 2 of" in done.stderr
    text = (tmp_path / "report.html").read_text()
    page = _Page(text)
    assert page.open == []
    assert len(page.images) == 1
    assert all(link[1:] in page.ids for link in page.links)
    for words in ("bad: cannot be drawn", "row 2 of", "holds runs of version 1", "its settings are no sweep: KeyError"):
        assert words in text


def test_rows_of_another_kind_do_not_keep_the_others_from_the_page(tmp_path, synthetic, monkeypatch):
    """Rows with right checksums and content that no version writes."""
    for name in ("bad", "good"):
        _store(tmp_path / name, "fig_varying_n", synthetic("fig_varying_n")[:3])
    section = page_module._section

    def fails(one):
        if one.folder.name == "bad" and not isinstance(one, folders.Unreadable):
            raise IndexError("list index out of range")
        return section(one)

    monkeypatch.setattr(page_module, "_section", fails)
    done = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert done.exit_code == 2
    assert "1 folders could not be drawn. The first: the rows of" in done.stderr
    page = _Page((tmp_path / "report.html").read_text())
    assert page.open == []
    assert len(page.images) == 1


def test_a_page_that_is_a_folder_is_told(tmp_path, synthetic):
    _store(tmp_path, "fig_varying_n", synthetic("fig_varying_n")[:3])
    done = CliRunner().invoke(app, ["report", str(tmp_path), "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert f"{tmp_path} is a folder: give a file for the page" in done.stderr


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path, synthetic, monkeypatch):
    _store(tmp_path, "fig_varying_n", synthetic("fig_varying_n")[:3])
    page = tmp_path / "report.html"
    page.write_text("old")

    def full(self, *given, **named):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", full)
    done = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert done.exit_code == 2
    assert f"{page} cannot be written (No space left on device): make room" in done.stderr
    assert page.read_text() == "old"
    assert sorted(child.name for child in tmp_path.iterdir()) == ["report.html", FILE]


def test_an_empty_sweep_has_a_page(tmp_path):
    with Store.create(tmp_path, find("fig4"), find("fig4").settings, 1):
        pass
    assert "No run has finished yet" in render(folders.load_all(tmp_path))
