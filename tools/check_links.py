"""Check the built site: every link and anchor leads somewhere, and no page loads anything from another host.

Run `python tools/check_links.py site` after `mkdocs build`; `make docs` does both. Addresses of other hosts are not
followed. It exits with status 1 and a list if something is wrong.
"""

import functools
import html.parser
import re
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src"), ("use", "href")}
_NOT_LOADED = {"canonical", "alternate", "next", "prev", "edit"}


class Page(html.parser.HTMLParser):
    """The links and anchors of one page."""

    def __init__(self, text: str):
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value is not None}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        for name in ("href", "src", "srcset"):
            if name in values:
                self.links.append(values[name])
                if (tag, name) in _LOADED and values.get("rel") not in _NOT_LOADED:
                    self.loaded.append(values[name])


@functools.cache
def read(file: Path) -> Page:
    return Page(file.read_text(encoding="utf-8"))


def problems_of(file: Path, site: Path) -> list[str]:
    """What is wrong with the links of one page."""
    found = []
    page = read(file)
    for address in page.loaded:
        if urlsplit(address).netloc:
            found.append(f"loads {address} from another host")
    for link in page.links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc or link.startswith("data:"):
            continue
        target = _file_of(unquote(parts.path), file, site)
        if not target.is_file():
            found.append(f"links to {link}, which is not there")
        elif not _has_anchor(target, unquote(parts.fragment)):
            found.append(f"links to {link}, and there is no such anchor")
    return found


def _has_anchor(target: Path, anchor: str) -> bool:
    """Whether a file has an anchor; those that begin with two underscores are made by the theme's own script."""
    return not anchor or target.suffix != ".html" or anchor.startswith("__") or anchor in read(target).anchors


def _file_of(path: str, file: Path, site: Path) -> Path:
    """The file that a path in a page means."""
    if not path:
        return file
    target = (site / path.lstrip("/") if path.startswith("/") else file.parent / path).resolve()
    return target / "index.html" if target.is_dir() else target


def style_problems(file: Path) -> list[str]:
    """Files of another host that a style sheet loads."""
    addresses = re.findall(r"(?:url\(|@import )[\"']?(https?:[^\"')]+)", file.read_text(encoding="utf-8"))
    return [f"loads {address} from another host" for address in addresses]


def check(site: Path) -> list[str]:
    """All problems of a site, one line each."""
    pages = [(file, problems_of(file, site)) for file in sorted(site.rglob("*.html")) if file.name != "404.html"]
    styles = [(file, style_problems(file)) for file in sorted(site.rglob("*.css"))]
    return [f"{file.relative_to(site)}: {problem}" for file, found in [*pages, *styles] for problem in found]


def main() -> int:
    site = Path(sys.argv[1] if len(sys.argv) > 1 else "site").resolve()
    if not (site / "index.html").is_file():
        print(f"{site} holds no site: run `mkdocs build` first.")
        return 1
    found = check(site)
    print("\n".join(found) or f"{len(list(site.rglob('*.html')))} pages: every link leads somewhere")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
