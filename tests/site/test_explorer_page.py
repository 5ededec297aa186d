"""The explorer in headless Chromium: real drags, key presses and fingers, light and dark, wide and narrow."""

import json

import pytest


@pytest.fixture
def page(desktop, folder):
    desktop.events.clear()
    desktop.open(folder / "index.html")
    yield desktop
    assert desktop.problems() == []


def _state(browser):
    return json.loads(browser.evaluate("JSON.stringify(Explorer.state)"))


def _text(browser, selector):
    return browser.evaluate(f"document.querySelector({selector!r}).textContent")


def _focus(browser, selector):
    browser.evaluate(f"document.querySelector({selector!r}).focus()")


def test_the_page_is_small_and_needs_no_network(page, folder):
    loaded = page.requests()
    assert all(address.startswith("file://") for address in loaded)
    assert not any(address.endswith("numbers.json") for address in loaded)
    assert sum((folder / address.rpartition("/")[2]).stat().st_size for address in loaded) < 300_000


def test_every_picture_and_control_has_words(page):
    unnamed = page.evaluate(
        """[...document.querySelectorAll("svg, [role=slider], input, select, button")].filter(one =>
        !(one.ariaLabel || one.labels?.length || one.textContent.trim())).map(one => one.outerHTML.slice(0, 80))"""
    )
    assert unnamed == []
    assert page.evaluate("document.querySelectorAll('svg').length") == 6


def test_the_tab_key_reaches_the_controls(page):
    reached = []
    for _ in range(14):
        page.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.ariaLabel || ''"))
    handles = ["Scale of the base", "Mean of the base", "Scale of the target", "Mean of the target"]
    wanted = ["play", "beta", "q", "q-value", *handles]
    assert [name for name in reached if name in wanted] == wanted


def test_arrow_keys_move_q_and_beta(page):
    _focus(page, "#q")
    page.press("ArrowLeft", 40)
    q = _state(page)["q"]
    assert q == page.evaluate("Controls.qAt(-40)")
    assert 0.9 < q < 1
    assert page.evaluate("Number(document.getElementById('q-value').value)") == q
    rows = page.evaluate("[...document.querySelectorAll('#figures tbody th')].map(one => one.textContent)")
    assert rows == [f"q = {q}", "q = 1"]
    _focus(page, "#beta")
    page.press("End")
    assert _state(page)["beta"] == 1
    page.press("ArrowLeft", 3)
    assert _state(page)["beta"] == 0.97
    assert "β = 0.97" in _text(page, "#ridges svg")


def test_the_slider_of_q_keeps_its_place(page):
    for position in (-100, -63, -1, 0, 1, 40, 100):
        q = page.evaluate(f"Controls.qAt({position})")
        assert abs(page.evaluate(f"Controls.positionOf({q})") - position) < 0.1
    assert page.evaluate("[-100, 0, 100].map(Controls.qAt)") == [0, 1, 1.5]


def test_a_handle_is_dragged(page):
    selector = '[aria-label="Mean of the target"]'
    before = _state(page)["target"]["mean"][0]
    unit = (
        page.evaluate("(() => { const box = document.querySelector('#density .axis').getBBox(); return box.width; })()")
        / 20
    )
    page.drag(page.center(selector), (-2 * unit, 0))
    assert _state(page)["target"]["mean"][0] == pytest.approx(before - 2, abs=0.05)
    assert f"Normal({before - 2:g}, " in _text(page, "#code")
    page.press("ArrowRight", 5)  # the handle has the focus now
    assert _state(page)["target"]["mean"][0] == pytest.approx(before - 1.5, abs=0.05)
    scale = _state(page)["base"]["scale"]
    page.drag(page.center('[aria-label="Scale of the base"]'), (unit, 0))
    assert _state(page)["base"]["scale"] == pytest.approx(scale + 1, abs=0.05)


def test_a_drag_over_the_ridges_sets_beta(page):
    x, y = page.center("#ridges svg")
    page.drag((x, y), (0, -60))
    up = _state(page)["beta"]
    page.drag((x, y), (0, 60))
    assert _state(page)["beta"] < up
    assert 0 < _state(page)["beta"] < up < 1
    page.drag((x, y), (0, -900))
    assert _state(page)["beta"] == 1


def test_play_moves_beta_and_stops(page):
    _focus(page, "#play")
    page.press(" ")
    assert _text(page, "#play") == "Pause"
    page.evaluate("new Promise(done => setTimeout(done, 300))")
    page.press(" ")
    stopped = _state(page)["beta"]
    assert stopped > 0.3
    page.evaluate("new Promise(done => setTimeout(done, 100))")
    assert _state(page)["beta"] == stopped


def _effective(browser):
    return browser.evaluate("Explorer.compute().run.records.at(-1).ess")


def test_the_weights_collapse_and_hold_as_q_changes(page):
    """On the linear schedule the geometric path loses its draws at once, and the q-path keeps several times as many."""
    geometric = _effective(page)
    _focus(page, "#q")
    page.press("ArrowLeft", 67)
    assert 0.88 < _state(page)["q"] < 0.92
    assert _effective(page) > 2 * geometric
    assert "hold" in _text(page, "#verdict")
    page.press("End")
    assert _state(page)["q"] == 1.5
    assert _effective(page) < geometric
    assert "collapsed" in _text(page, "#verdict")


def test_steps_of_equal_length_are_equal(page):
    _focus(page, "[name=schedule][value=linear]")
    page.press("ArrowRight")
    assert _state(page)["schedule"] == "equal"
    shares = page.evaluate("Explorer.compute().shares")
    assert max(shares) - min(shares) < 0.05


def test_two_dimensions(page):
    page.evaluate("document.querySelector('[data-preset=plane]').scrollIntoView({ block: 'center' })")
    page.drag(page.center("[data-preset=plane]"), (0, 0), 1)  # a click
    assert _state(page)["planar"]
    x, y = _state(page)["base"]["mean"]
    page.drag(page.center('[aria-label="Mean of the base"]'), (50, -50))
    moved = _state(page)["base"]["mean"]
    assert moved[0] - x == pytest.approx(moved[1] - y, abs=0.1)  # one scale for both coordinates
    assert moved[0] > x + 0.5
    painted = """[...document.querySelectorAll("canvas")].map(c =>
        c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some(v => v))"""
    assert page.evaluate(painted) == [True, True]
    assert "MultivariateNormal(" in _text(page, "#code")


def test_a_link_brings_the_state_back(page, folder):
    _focus(page, "#q")
    page.press("ArrowRight", 20)
    wanted = _state(page)
    page.evaluate("new Promise(done => setTimeout(done, 600))")
    fragment = page.evaluate("location.hash")
    page.open(folder / "numbers.json")
    page.open(folder / "index.html", fragment)
    assert _state(page) == wanted
    page.open(folder / "numbers.json")
    page.open(folder / "index.html", "#%7B%22q%22%3A0.5%7D")  # a link that lacks the rest changes nothing
    assert _state(page)["q"] == 1


def test_a_phone(phone, folder):
    phone.open(folder / "index.html")
    assert phone.problems() == []
    assert phone.evaluate("document.documentElement.scrollWidth") == 390
    assert phone.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 27, 33)"
    box = phone.evaluate(
        "(() => { const b = document.getElementById('controls').getBoundingClientRect(); return [b.top, b.bottom]; })()"
    )
    assert 844 / 2 < box[0] < box[1] <= 844
    small = phone.evaluate(
        "[...document.querySelectorAll('input, button, summary')].filter(one => one.offsetParent && "
        "!['radio', 'checkbox'].includes(one.type) && one.getBoundingClientRect().height < 24)"
        ".map(one => one.outerHTML.slice(0, 60))"
    )
    assert small == []
    start, before = phone.center('[aria-label="Mean of the base"]'), _state(phone)["base"]["mean"][0]
    scrolled = phone.evaluate("scrollY")
    phone.swipe(start, (40, 0))
    assert _state(phone)["base"]["mean"][0] > before + 1
    assert phone.evaluate("scrollY") == scrolled


EXTREMES = """(async () => {
  const end = (kind, mean, scale, df, correlation) => ({ kind, mean, scale, df, correlation });
  const pairs = [
    [end("normal", [-8, -4], 0.3, 5, 0), end("normal", [8, 4], 0.3, 5, 0)],
    [end("normal", [0, 0], 0.3, 5, 0.9), end("student", [0, 0], 4, 1, -0.9)],
    [end("student", [-8, 4], 4, 1, 0.9), end("normal", [8, -4], 0.3, 5, 0)],
    [end("normal", [1, 1], 1, 5, 0), end("normal", [1, 1], 1, 5, 0)],
  ];
  const wrong = [];
  for (const planar of [false, true]) for (const [base, target] of pairs) for (const q of [0, 0.9, 1, 1.5]) {
    const schedule = q < 1 ? "equal" : "linear";
    const state = { planar, base, target, q, schedule, beta: q / 1.5, num: 7, moves: 1 };
    Explorer.update(state);
    await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
    if (/NaN|undefined|Infinity/.test(document.querySelector("main").innerHTML)) wrong.push(JSON.stringify(state));
  }
  return wrong;
})()"""
"""Endpoints at the limits of the sliders, equal ones, and paths whose weights have infinite variance."""


def test_extreme_endpoints_are_drawn(page):
    assert page.evaluate(EXTREMES) == []
