"""Commands in the documents exist and compose, and the targets that the documents point to exist."""

import importlib
import re
import shlex
import sys
from pathlib import Path

import pytest
import yaml
from pages import FENCE, PLACEHOLDER, ROOT

from variations.commands import new
from variations.configuration.compose import compose_run
from variations.searching.definition import define, is_search
from variations.sweeping.jobs import expand

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def names(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def commands(document: Path, pattern: str) -> list[str]:
    """Return the matching commands of code blocks and inline code, without comments and pipes."""
    text = document.read_text(encoding="utf-8")
    blocks = [line for block in FENCE.findall(text) for line in block.replace("\\\n", " ").splitlines()]
    spans = re.findall(r"`([^`\n]+)`", FENCE.sub("", text))
    plain = [re.sub(r'"\$\((.*)\)"', r"\1", code.strip()) for code in [*blocks, *spans]]  # eval "$(command)"
    found = [match[0] for code in plain for match in re.finditer(pattern, code)]
    return [shlex.join(shlex.split(command, comments=True)) for command in found]


PYTHON_COMMANDS = sorted(
    {(names(document), line) for document in DOCUMENTS for line in commands(document, r"python src/\w+\.py[^|;&]*")}
)


MADE = "heads"
"""The sweep that pages create with `new.py` before they use it."""


def without_placeholders(verbs: str) -> list[tuple[str, list[str]]]:
    """Return (verb, arguments) of the commands that can be checked completely, without duplicates.

    An existing sweep stands in for the one that a page creates; tests/test_new.py plans what `new.py` creates.
    """
    lines = (re.sub(rf"\bsweep={MADE}\b", "sweep=quickstart", line) for _, line in PYTHON_COMMANDS)
    split = [shlex.split(line)[1:] for line in dict.fromkeys(lines)]
    chosen = [(verb, words) for verb, *words in split if re.fullmatch(verbs, verb)]
    return [(verb, words) for verb, words in chosen if not any(PLACEHOLDER.search(word) for word in words)]


FREE = ("sweep", "sweep.name", "rows", "seeds", "diff", "runs", "out", "export", "caption")
"""Keys whose values are names, which printing the configuration does not look up."""


def with_new_words(lines: list[tuple[str, list[str]]]) -> list[tuple[str, list[str]]]:
    """Return the commands, longest first, without those whose words all stand in one that the same verb has before.

    Of FREE keys, any value will do.
    """
    seen: dict[str, set[str]] = {}
    chosen = []
    for verb, words in sorted(lines, key=lambda line: -len(line[1])):
        before = seen.setdefault(verb, set())
        new = {key if (key := word.split("=")[0]) in FREE else word for word in words}
        if not before >= new:
            chosen.append((verb, words))
        before.update(new)
    return chosen


def test_the_readme_shows_each_way_to_train() -> None:
    lines = [line for document, line in PYTHON_COMMANDS if document == "README.md"]
    assert "python src/train.py" in lines
    assert "python src/train.py --multirun sweep=heads" in lines
    assert "python src/table.py sweep=heads" in lines


@pytest.mark.parametrize(("document", "line"), PYTHON_COMMANDS)
def test_the_verb_exists(document: str, line: str) -> None:
    verb = line.split()[1]
    assert (ROOT / verb).is_file(), f"{document} speaks of {verb}"


SWEEP = re.compile(r"\bsweep=(\w+)")


@pytest.mark.parametrize("name", sorted({name for _, line in PYTHON_COMMANDS for name in SWEEP.findall(line)} - {MADE}))
def test_a_sweep_that_a_command_names_exists(name: str) -> None:
    assert PLACEHOLDER.search(name) or (ROOT / f"sweeps/{name}.yaml").is_file()


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "words"), without_placeholders(r"src/train\.py"))
def test_a_training_command_composes(verb: str, words: list[str]) -> None:
    options = [word for word in words if word.startswith("-")]
    overrides = [word for word in words if not word.startswith("-") and word not in ("job", "hydra")]
    if "--shell-completion" in options:
        return  # nothing is composed
    assert set(options) <= {"--multirun", "-m", "--help", "--cfg"}
    if "--multirun" in options:
        own = [word for word in overrides if not word.startswith("hydra")]
        assert define(tuple(own)).total >= 1 if is_search(own) else expand(own)
        if not any(word.startswith("sweep=") for word in own):
            return  # a grid, or a search without a file: several configurations
    config = compose_run([word for word in overrides if "," not in word])
    assert config.trainer.max_steps >= 1
    for override in overrides:
        key, value = override.split("=")
        if key == "seed":
            assert config.seed == int(value)
        if key == "sweep.name" or (key == "sweep" and not any(word.startswith("sweep.name=") for word in overrides)):
            assert config.sweep.name == value


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "words"), with_new_words(without_placeholders(r"src/(?!train\.|new\.)\w+\.py")))
def test_another_command_knows_its_keys(
    verb: str, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Hydra's `--cfg job` composes and prints the configuration without running anything."""
    monkeypatch.setattr(sys, "argv", [str(ROOT / verb), *words, "--cfg", "job"])
    monkeypatch.chdir("/")
    importlib.import_module(f"variations.commands.{Path(verb).stem}").main()  # a fault would raise SystemExit
    printed = capsys.readouterr().out
    for word in words:
        if word.startswith("hydra"):
            continue  # a launcher is not among the verb's own keys; a wrong one would raise SystemExit
        key = word.split("=")[0].split(".")[-1]
        assert (ROOT / "conf" / key).is_dir() or re.search(rf"^ *{key}:", printed, flags=re.MULTILINE), (
            f"{key} is no key of {verb}"
        )


@pytest.mark.parametrize("document", ["README.md", "docs/tutorial.md"])
def test_the_row_that_a_page_shows_is_what_its_command_writes(
    document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (line,) = [line for place, line in PYTHON_COMMANDS if place == document and re.search(r"new\.py [a-z]", line)]
    _, _, name, row = line.split()
    assert name == MADE
    monkeypatch.setattr(new, "IN_CHECKOUT", False)
    monkeypatch.chdir(tmp_path)
    written = yaml.safe_load(new.create(name, [row])[-1].read_text(encoding="utf-8"))
    (block,) = re.findall(r"```yaml\n(.*?)```", (ROOT / document).read_text(encoding="utf-8"), flags=re.DOTALL)
    shown = yaml.safe_load(block)
    assert shown == written


@pytest.mark.parametrize(
    ("document", "target"),
    sorted({(names(d), line.split()[1]) for d in DOCUMENTS for line in commands(d, r"(?<![\w/])make [a-z]+")}),
)
def test_the_make_target_exists(document: str, target: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:.*## ", makefile, flags=re.MULTILINE), f"{document} speaks of `make {target}`"


def links(document: Path) -> list[str]:
    text = FENCE.sub("", document.read_text(encoding="utf-8"))
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:", link)]


@pytest.mark.parametrize(("document", "link"), sorted({(names(d), link) for d in DOCUMENTS for link in links(d)}))
def test_a_link_leads_somewhere(document: str, link: str) -> None:
    path, _, anchor = link.partition("#")
    target = (ROOT / document).parent / path if path else ROOT / document
    assert target.exists(), f"{document} links to {link}"
    if anchor:
        headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), flags=re.MULTILINE)
        slugs = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
        assert anchor in slugs, f"{document} links to a heading that {path or 'it'} lacks: {anchor}"


def mentioned_paths(document: Path) -> list[str]:
    spans = re.findall(r"`([^`\n]+)`", FENCE.sub("", document.read_text(encoding="utf-8")))
    return [span for span in spans if re.fullmatch(r"(?:src|conf|docs|tests|sweeps|\.ci)(?:/[\w.-]+)*/?", span)]


@pytest.mark.parametrize(
    ("document", "path"), sorted({(names(d), path) for d in DOCUMENTS for path in mentioned_paths(d)})
)
def test_a_path_that_is_named_exists(document: str, path: str) -> None:
    assert (ROOT / path).exists(), f"{document} names {path}"


def test_the_tour_has_seven_stops_in_order() -> None:
    text = (ROOT / "docs/tour.md").read_text(encoding="utf-8")
    stops = re.findall(r"^(\d)\. \[([^\]]+)\]", text, flags=re.MULTILINE)
    assert [number for number, _ in stops] == ["1", "2", "3", "4", "5", "6", "7"]
    assert [path for _, path in stops[:6]] == [
        "src/train.py",
        "src/variations/commands/run.py",
        "src/variations/training/step.py",
        "src/variations/tasks/task.py",
        "src/variations/models/transformer/transformer.py",
        "src/variations/models/transformer/weighted.py",
    ]
    assert stops[6][1].startswith("conf/variation/")
