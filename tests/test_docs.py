"""Code and keys named in the documentation exist."""

import ast
import dataclasses
import itertools
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch.utils.flop_counter import FlopCounterMode

from variations.commands.console import VERBS
from variations.commands.dashboard import DashboardConfig
from variations.configuration.schema import SearchConfig
from variations.configuration.tasks import BUILT_IN, schema_of
from variations.configuration.transformer import ModelConfig
from variations.models import build
from variations.models.network import Tokens
from variations.sweeping.settings import RaySettings, SlurmSettings
from variations.tables.chance import SignificanceConfig
from variations.tasks.sequences import agreement
from variations.tasks.translation.config import TranslationConfig

ROOT = Path(__file__).resolve().parents[1]
SYMBOL_LINK = re.compile(r"\[`([^`]+)`\]\(([^)#]+\.py)\)")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")
KEY = re.compile(r"`([a-z_]+(?:\.[A-Za-z_0-9]+)*)(?:=([^`]*))?`")


def symbols(path: Path) -> set[str]:
    """Return a file's functions, classes and module-level names, with methods as `Class.method`."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{item.name}" for item in node.body if isinstance(item, ast.FunctionDef)}
        if isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def schema_keys(kind: type, prefix: str = "") -> set[str]:
    keys: set[str] = set()
    for field in dataclasses.fields(kind):
        keys.add(prefix + field.name)
        if dataclasses.is_dataclass(field.type):
            keys |= schema_keys(field.type, f"{prefix}{field.name}.")  # type: ignore[arg-type]
    return keys


SCHEMAS = [schema_of(name) for name in BUILT_IN]


def choices(key: str) -> tuple[str, ...] | None:
    kind: object = next(schema for schema in SCHEMAS if key in schema_keys(schema))
    field = None
    for part in key.split("."):
        field = next(f for f in dataclasses.fields(kind) if f.name == part)  # type: ignore[arg-type]
        kind = field.type
    assert field is not None
    return field.metadata.get("choices")


def pairs() -> list[tuple[str, str]]:
    return SYMBOL_LINK.findall((ROOT / "docs" / "paper.md").read_text(encoding="utf-8"))


def test_the_page_of_commands_has_the_list_of_the_help() -> None:
    listed = [f"{verb:<13} {text}" for verb, text in VERBS.items()]
    assert "```text\n" + "\n".join(listed) + "\n```" in (ROOT / "docs/commands.md").read_text(encoding="utf-8")


def test_paper_maps_both_papers_to_code() -> None:
    named = {symbol for symbol, _ in pairs()}
    essential = {
        "Reference.attention",
        "sinusoids",
        "noam",
        "project",
        "branch_sum",
        "FeedForward.forward",
        "TopK.forward",
    }
    assert essential <= named
    assert len(named) >= 35


@pytest.mark.parametrize(("symbol", "file"), sorted(set(pairs())))
def test_symbol_named_in_paper_md_exists(symbol: str, file: str) -> None:
    path = (ROOT / "docs" / file).resolve()
    assert path.is_file(), f"docs/paper.md links to {file}, which does not exist"
    assert symbol in symbols(path), f"docs/paper.md names {symbol}, which is not in {file}"


@pytest.mark.parametrize("document", ["docs/paper.md", "docs/departures.md", "benchmarks/README.md"])
def test_links_of_a_document_lead_somewhere(document: str) -> None:
    path = ROOT / document
    broken = [link for link in LINK.findall(path.read_text(encoding="utf-8")) if not (path.parent / link).exists()]
    assert broken == []


def test_keys_and_values_named_in_departures_md_exist() -> None:
    """The last column of every table contains schema keys, with values that the schema allows."""
    known, seen = set().union(*map(schema_keys, SCHEMAS)), set()
    for line in (ROOT / "docs" / "departures.md").read_text(encoding="utf-8").splitlines():
        if not line.startswith("| ") or line.startswith("| question"):
            continue
        for key, value in KEY.findall(line.rstrip("| ").rsplit(" | ", 1)[-1]):
            if "." not in key and not value and key != "seeds":
                continue  # a row name, not a key
            assert key in known, f"docs/departures.md names the key {key}, which does not exist"
            allowed = choices(key)
            assert not value or allowed is None or value in allowed, f"{key}={value}"
            seen.add(key)
    assert {"model.norm", "branch.ffn", "branch.decoder", "recipe.smoothing", "profile"} <= seen


def blocks(page: str) -> list[str]:
    """The Python code blocks of a page, without their indentation in a list."""
    found = re.findall(r"^( *)```python\n(.*?)^ *```$", (ROOT / page).read_text(encoding="utf-8"), re.M | re.S)
    return [textwrap.dedent(code) for _, code in found]


@pytest.mark.parametrize(
    ("index", "changes"),
    [
        (0, {"attention": "shown:Cosine"}),
        (1, {"positions": "shown:NoPositions"}),
        (2, {"kind": "shown:GatedTransformer"}),
        (3, {"kind": "shown:AveragingTransformer"}),
    ],
    ids=["attention", "positions", "sublayer", "layer"],
)
def test_the_classes_on_the_page_for_variations_work(
    index: int, changes: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They decode as they are trained, and their FLOPs are those that torch counts."""
    (tmp_path / "shown.py").write_text(blocks("docs/adding-a-variation.md")[index], encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "shown", raising=False)
    config = TranslationConfig()
    config.positions.kind = changes.pop("positions", "sinusoidal")
    config.model = ModelConfig(**{"N": 2, "d_model": 16, "d_ff": 24, "h": 2, "dropout": 0.0} | changes)
    plain = TranslationConfig()
    plain.model = ModelConfig(N=2, d_model=16, d_ff=24, h=2, dropout=0.0)
    network = build(config, 13)
    agreement.check(network, "the page's example")
    source, target = torch.tensor([[5, 4, 7]]), torch.tensor([[6, 3, 2, 8]])
    assert not torch.allclose(network.eval()(source, target), build(plain, 13).eval()(source, target))
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network.logits(network(source, target))
    tokens = Tokens(source=3, target=4, source_squared=9, target_squared=16, product=12)
    assert counter.get_total_flops() == 2 * type(network).forward_macs(config, tokens, 13)


SETTINGS = {
    "cluster.md": [("`partition`", SlurmSettings, ""), ("`address`", RaySettings, "")],
    "search.md": [("`space`", SearchConfig, "")],
    "tables.md": [("`significance.n`", SignificanceConfig, "significance.")],
    "dashboard.md": [("`runs`", DashboardConfig, "")],
}
"""By page: a table of keys, found by its first key, with the schema that declares them and their common prefix."""


@pytest.mark.parametrize(
    ("page", "first", "schema", "prefix"), [(page, *table) for page, tables in SETTINGS.items() for table in tables]
)
def test_a_table_of_keys_has_those_of_the_schema_with_their_defaults(
    page: str, first: str, schema: Any, prefix: str
) -> None:
    lines = (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {first}"))
    cells = itertools.takewhile(lambda line: line.startswith("|"), lines[start:])
    shown = "\n".join(cells)
    defaults = {f"{prefix}{item.name}": item for item in dataclasses.fields(schema)}
    assert [key for key in defaults if f"`{key}`" not in shown] == []
    said = re.findall(r"^\| `([\w.]+)` \| (\S+) \|", shown, re.MULTILINE) if prefix else []
    said += re.findall(r"`(\w+)` \(([\w.]+)\)", shown)
    for key, value in said:
        assert yaml.safe_load(value) == defaults[key].default, key
    assert said or not prefix
