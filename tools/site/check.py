"""Check that a built site is self-contained: no files from other sites, no broken links, and a text for each picture.

python -m tools.site.check site
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src")}
"""Elements that a browser loads by itself, unlike links that a reader may follow."""


class Page(HTMLParser):
    """The links of a page, the files that it loads, its anchors, and flaws such as pictures without a description."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.flaws: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: Sequence[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.anchors |= {given[name] or "" for name in ("id", "name") if given.get(name)}
        for name, value in given.items():
            if (tag, name) in _LOADED and value and given.get("rel") != "canonical":
                self.loaded.append(value)
            elif (tag, name) == ("a", "href") and value:
                self.links.append(value)
        if tag == "img" and not given.get("alt"):
            self.flaws.append(f"a picture without a text: {given.get('src')}")
        if tag == "svg" and given.get("role") == "img" and "aria-labelledby" not in given:
            self.flaws.append("a drawing without a text")
        if tag == "html" and not given.get("lang"):
            self.flaws.append("no language")


def flaws(site: Path) -> Iterator[str]:
    """Yield one line per flaw of the site."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}
    for path, page in pages.items():
        where = path.relative_to(site)
        yield from (f"{where}: {flaw}" for flaw in page.flaws)
        yield from (f"{where}: loads {each} from elsewhere" for each in page.loaded if urlsplit(each).netloc)
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                yield f"{where}: {link} leads nowhere"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{where}: {link}: there is no such place on that page"
    for path in sorted([*site.rglob("*.css"), *site.rglob("*.js")]):
        if "url(http" in (text := path.read_text(encoding="utf-8")) or "@import" in text:
            yield f"{path.relative_to(site)}: loads something from elsewhere"


if __name__ == "__main__":
    found = list(flaws(Path(sys.argv[1]).resolve()))
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(f"{len(found)} flaws" if found else 0)
