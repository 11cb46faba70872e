"""Functions that MkDocs calls while it builds the site; see `hooks` in mkdocs.yml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from tools.site.links import PAGES, ROOT, folder_page, linked, repository_path, rewritten, site_path
from tools.site.pieces import expanded
from tools.site.reference import PAGES as GENERATED


def on_files(files: Files, config: Any) -> Files:
    """Add generated pages, pages outside docs/, and all files that pages link to."""
    for path, page in PAGES.items():
        if page != "index.md":
            files.append(File.generated(config, page, content=(ROOT / path).read_text(encoding="utf-8")))
    for page, make in GENERATED.items():
        files.append(File.generated(config, page, content=make()))
    for page in [each for each in files if each.is_documentation_page()]:
        for path in linked(page.content_string, repository_path(page.src_uri)):
            _add(files, config, path)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Expand the pieces of a page, and turn links between files of the repository into links of the site."""
    if page.file.src_uri in GENERATED:
        return markdown
    try:
        return rewritten(expanded(markdown), repository_path(page.file.src_uri))
    except ValueError as error:
        raise PluginError(f"{page.file.src_uri}: {error}") from error


def _add(files: Files, config: Any, path: str) -> None:
    """Add a file to the site, or the files of a folder with a page that lists them, unless they have been added."""
    full = ROOT / path
    if full.is_dir():
        page = folder_page(path)
        if files.get_file_from_path(page) is None:
            files.append(File.generated(config, page, content=_listed(full, path)))
            for inside in full.iterdir():
                if inside.is_file():
                    _add(files, config, f"{path}/{inside.name}")
    elif files.get_file_from_path(site_path(path)) is None:
        files.append(File.generated(config, site_path(path), abs_src_path=str(full)))


def _listed(folder: Path, title: str) -> str:
    """Return a page with a link to each file of a folder."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    return "\n".join([f"# {title}", "", *(f"- [{name}]({name})" for name in names)]) + "\n"
