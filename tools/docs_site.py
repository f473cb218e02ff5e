"""Hooks for MkDocs, which builds the site (`make docs`): pages from the code, and links that lead out of docs/.

Two pages contain a marker that is replaced here: in commands.md by the help texts, in configuration.md by the schema. A
link from a page to a file outside docs/, such as ../src/train.py, works when the repository is browsed; in the site it
leads to a copy of that file under source/.
"""

import contextlib
import dataclasses
import importlib
import inspect
import io
import posixpath
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r'(\]\(|\b(?:src|srcset|href)=")(?!\w+:|#)([^)"#\s]+)(#[^)"\s]*)?(?=[)"])')
"""The targets of links and pictures, in Markdown and in HTML."""
PICTURE = re.compile(r"!\[([^]]*)\]\(([^)\s]+)-light\.png\)")
"""A picture of which there is another one, -dark.png, for the dark theme."""
CODE = re.compile(r"(^```.*?^```|`[^`\n]*`)", flags=re.MULTILINE | re.DOTALL)
LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".json": "json", ".ipynb": "json"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page under source/ for each file or folder outside docs/ to which a page links, recursively."""
    waiting = [
        target
        for file in files.documentation_pages()
        for target in outside(file.content_string, posixpath.dirname(f"docs/{file.src_uri}"))
    ]
    seen: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in seen or not (ROOT / path).exists():
            continue  # a broken link stays as it is, and MkDocs reports it
        seen.add(path)
        content = source_page(ROOT / path)
        files.append(File.generated(config, source_uri(path), content=content))
        if path.endswith(".md"):
            waiting += outside(content, posixpath.dirname(path))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fill in the generated parts, and rewrite links that lead out of docs/ to the pages under source/."""
    del config, files
    uri = page.file.src_uri
    for name, make in GENERATED.items():
        if f"<!-- generated: {name} -->" in markdown:
            markdown = markdown.replace(f"<!-- generated: {name} -->", "\n".join(make()))
    original = uri.removeprefix("source/").removesuffix(".md") if uri.startswith("source/") else f"docs/{uri}"
    return themed(redirected(markdown, posixpath.dirname(original), posixpath.dirname(uri)))


def source_uri(path: str) -> str:
    """The place of a file of the repository in the site."""
    return f"source/{path.rstrip('/')}.md"


def outside(markdown: str, folder: str) -> list[str]:
    """The targets of links that lead out of docs/, as paths from the repository's root."""
    found = [
        posixpath.normpath(posixpath.join(folder, link))
        for part in CODE.split(markdown)[::2]
        for _, link, _ in LINK.findall(part)
    ]
    return [path for path in found if not path.startswith(("docs/", ".."))]


def redirected(markdown: str, folder: str, page_folder: str) -> str:
    """The page with its links rewritten for the site.

    Args:
        markdown: The page.
        folder: Folder of the file in the repository, from which its links are written.
        page_folder: Folder of the page in the site.
    """

    def replace(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, match[2]))
        target = path.removeprefix("docs/") if path.startswith("docs/") else source_uri(path)
        if target == source_uri("docs"):
            target = "index.md"
        return f"{match[1]}{posixpath.relpath(target, page_folder or '.')}{match[3] or ''}"

    parts = CODE.split(markdown)
    parts[::2] = [LINK.sub(replace, part) for part in parts[::2]]
    return "".join(parts)


def themed(markdown: str) -> str:
    """The page with both pictures of each pair, of which the site shows the one of its theme."""
    return PICTURE.sub(r"![\1](\2-light.png#only-light)![\1](\2-dark.png#only-dark)", markdown)


def source_page(path: Path) -> str:
    """A file as a page: Markdown as it is, code in a code block, a folder as the list of its contents."""
    name = path.relative_to(ROOT).as_posix()
    head = f"---\ntitle: {name}\nsearch:\n  exclude: true\n---\n\n"
    if path.is_dir():
        entries = sorted(f"- `{item.name}{'/' if item.is_dir() else ''}`" for item in path.iterdir() if shown(item))
        return "\n".join([f"{head}# {name}/", "", *entries, ""])
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return head + text
    return f"{head}# {name}\n\n``````{LANGUAGES.get(path.suffix, 'text')}\n{text}\n``````\n"


def shown(path: Path) -> bool:
    """Whether a folder's list names this file."""
    return not path.name.startswith((".", "__pycache__"))


# --- pages from the code --------------------------------------------------------------------------------------


def commands() -> Iterator[str]:
    """Every verb with its help text, as `--help` prints it in a checkout."""
    from variations.commands.console import VERBS

    for verb, about in VERBS.items():
        yield from [
            f"## {verb}",
            "",
            f"{about[0].upper()}{about[1:]}.",
            "",
            "```text",
            help_of(verb).rstrip(),
            "```",
            "",
        ]


def help_of(verb: str) -> str:
    """The output of `python src/VERB.py --help`."""
    module = importlib.import_module(f"variations.commands.{verb}")
    printed = io.StringIO()
    with (
        mock.patch.object(sys, "argv", [f"src/{verb}.py", "--help"]),
        contextlib.redirect_stdout(printed),
        contextlib.suppress(SystemExit),  # of argparse
    ):
        module.main()
    return printed.getvalue()


def configuration() -> Iterator[str]:
    """Every key of a run: those of all tasks, then those of each task; then those of launchers and of tables."""
    from variations.configuration.schema import RunConfig
    from variations.configuration.tasks import BUILT_IN, schema_of
    from variations.sweeping.settings import RaySettings, SlurmSettings
    from variations.tables.chance import SignificanceConfig

    yield from [
        "The chosen groups set many of these keys to other values than the defaults of the schema, which are listed "
        "here: with `size=tiny recipe=quick data=toy`, which are chosen if nothing is typed, `recipe.lr` is 0.5. "
        "`python src/train.py --cfg job` prints the values in force.",
        "",
    ]
    yield from ["## Every run", "", *key_table(keys(RunConfig)), ""]
    common = set(keys(RunConfig))
    for task in sorted(BUILT_IN, key=lambda name: name != "translation"):
        own = [row for row in keys(schema_of(task)) if row not in common]
        yield from [f"## task={task}", "", "In addition to the keys of every run:", "", *key_table(own), ""]
    for launcher, settings in {"slurm": SlurmSettings, "ray": RaySettings}.items():
        yield from [f"## hydra/launcher={launcher}", "", *key_table(keys(settings, "hydra.launcher.")), ""]
    yield from ["## Tables", "", "Of `table`, `figures` and `dashboard`:", ""]
    yield from [*key_table(keys(SignificanceConfig, "significance.")), ""]


def key_table(rows: Iterable[tuple[str, str, str, str]]) -> list[str]:
    """A Markdown table of keys."""
    lines = ["| key | default in the schema | values | meaning |", "|---|---|---|---|"]
    return lines + [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]


def keys(schema: type[Any], prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    """(key, default, values, meaning) of every field of a schema, followed by those of its parts."""
    from variations.commands.help import descriptions

    parts: list[tuple[str, type[Any]]] = []
    described = descriptions(schema)
    for item in dataclasses.fields(schema):
        if isinstance(item.type, type) and dataclasses.is_dataclass(item.type):
            parts.append((item.name, item.type))
            continue
        default = item.default if item.default_factory is dataclasses.MISSING else item.default_factory()
        if isinstance(default, str) and default.startswith(str(Path.home())):
            default = "~" + default.removeprefix(str(Path.home()))
        yield f"`{prefix}{item.name}`", f"`{plain(default)}`", values(item), described.get(item.name, "")
    for name, kind in parts:
        yield from keys(kind, f"{prefix}{name}.")


def values(item: dataclasses.Field[Any]) -> str:
    """The values of a key: its choices, or its type and bounds."""
    signs = {"ge": "≥", "gt": ">", "lt": "<", "le": "≤"}
    if choices := item.metadata.get("choices"):
        classes = ["package.module:Class"] if item.metadata.get("classes") else []
        return ", ".join(f"`{choice}`" for choice in [*choices, *classes])
    kind = item.type.__name__ if inspect.isclass(item.type) else str(item.type)
    bounds = [f"{signs[name]} {bound}" for name, bound in item.metadata.get("bounds", {}).items()]
    return ", ".join([kind.replace("| None", "or null"), *bounds])


def plain(value: object) -> str:
    """A default value as it is typed."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


GENERATED = {"commands": commands, "configuration": configuration}
"""The text between `<!-- generated: ` and ` -->`, and its replacement."""
