"""Turn links between files of the repository into links between pages of the site."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
    "README.md": "index.md",
}
"""Files outside docs/ that become pages of the site, and the paths of these pages."""

_LINK = re.compile(r"(?<=\]\()(?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?(?=\))")


def site_path(repository_path: str) -> str:
    """Return the path on the site of a file or folder of the repository."""
    if repository_path in PAGES:
        return PAGES[repository_path]
    if repository_path.startswith("docs/"):
        return repository_path.removeprefix("docs/")
    return f"files/{repository_path}"


def repository_path(site_page: str) -> str:
    """Return the path in the repository of a page of the site."""
    if site_page.startswith("files/"):
        return site_page.removeprefix("files/")
    return next((path for path, page in PAGES.items() if page == site_page and page != "index.md"), f"docs/{site_page}")


def linked(markdown: str, source: str) -> Iterator[str]:
    """Yield the existing files and folders of the repository that the text of its file `source` links to."""
    for link in _LINK.finditer(markdown):
        path = _resolved(link["target"], source)
        if path is not None:
            yield path


def rewritten(markdown: str, source: str) -> str:
    """Return the text with its links rewritten for the site. source: the file in the repository that it is from."""
    here = posixpath.dirname(site_path(source))

    def rewrite(link: re.Match[str]) -> str:
        path = _resolved(link["target"], source)
        if path is None:
            return link[0]
        target = folder_page(path) if (ROOT / path).is_dir() else site_path(path)
        return posixpath.relpath(target, here or ".") + (link["anchor"] or "")

    return _LINK.sub(rewrite, markdown)


def folder_page(path: str) -> str:
    """Return the path of the page that lists a folder of the repository."""
    return f"{site_path(path).rstrip('/')}/files.md"


def _resolved(target: str, source: str) -> str | None:
    if "://" in target or target.startswith(("mailto:", "/")):
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    return path if not path.startswith("..") and (ROOT / path).exists() else None
