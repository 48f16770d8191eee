"""What MkDocs is told beside mkdocs.yml: pages from outside of docs/, the list of decisions, pages that no menu names.

A hook of MkDocs (``hooks`` in mkdocs.yml). Links stay as they are in the repository, where they lead to files; here
those to the repository's own pages are turned into links to the site's.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pymdownx.slugs import slugify

ROOT = Path(__file__).parents[2]
OUTSIDE = {
    "README.md": "about/readme.md",
    "CHANGELOG.md": "about/changelog.md",
    "CONTRIBUTING.md": "about/contributing.md",
    "SECURITY.md": "about/security.md",
    "LICENSE": "about/licence.md",
}
"""Pages of the repository's top, and where the site has them."""

_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)(?=[)#\s])")
_FENCE = re.compile(r"^(```.*?^```$)", re.DOTALL | re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make anchors as GitHub makes them, so that a link is right in both places."""
    slug = slugify(case="lower")  # it takes `<name>` for a tag of HTML, and leaves it out
    config.mdx_configs.setdefault("toc", {})["slugify"] = lambda text, sep: slug(re.sub("[<>]", "", text), sep)
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages from outside and the list of decisions; put pages that the menu does not name under "More"."""
    for name, place in OUTSIDE.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(
            File.generated(config, place, content=f"# Licence\n\n```\n{text}```\n" if name == "LICENSE" else text)
        )
    files.append(File.generated(config, "adr/index.md", content=_list_decisions()))
    named = set(_find_named(config.nav or []))
    rest = sorted(
        file.src_uri
        for file in files.documentation_pages()
        if file.src_uri not in named and not file.src_uri.startswith("adr/") and file.src_uri != OUTSIDE["LICENSE"]
    )
    if rest and config.nav is not None:
        config.nav.append({"More": rest})
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - MkDocs calls it
    """Turn links between files of the repository into links between pages of the site; code is left alone."""
    site = page.file.src_uri
    home = {place: name for name, place in OUTSIDE.items()}.get(site, f"docs/{site}")

    def lead(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(home), found[1]))
        if target == "docs/adr":
            target = "docs/adr/index.md"
        place = OUTSIDE.get(target, target.removeprefix("docs/") if target.startswith("docs/") else None)
        return found[1] if place is None else os.path.relpath(place, posixpath.dirname(site) or ".")

    parts = _FENCE.split(markdown)
    return "".join(part if number % 2 else _LINK.sub(lead, part) for number, part in enumerate(parts))


def _find_named(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    else:
        for each in nav.values() if isinstance(nav, dict) else nav:
            yield from _find_named(each)


def _list_decisions() -> str:
    lines = [
        "# Decisions",
        "",
        "One page for each decision that somebody may question later: context, decision, consequences.",
        "",
    ]
    for path in sorted((ROOT / "docs" / "adr").glob("[0-9]*.md")):
        title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        lines.append(f"- [{title.replace('. ', ' ', 1)}]({path.name})")
    return "\n".join(lines) + "\n"
