"""The documentation site builds without warnings and shows every verb and every key."""

import html
import os
import re
import subprocess
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

import docs_site
from variations.commands.console import VERBS
from variations.configuration.tasks import BUILT_IN, schema_of
from variations.sweeping.settings import RaySettings, SlurmSettings
from variations.tables.chance import SignificanceConfig

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_MKDOCS_2_WARNING": "true"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def words(page: Path) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))


@pytest.mark.slow
def test_every_verb_stands_on_the_page_of_commands_with_its_help(site: Path) -> None:
    text = words(site / "commands.html")
    assert "generated:" not in text
    for verb in VERBS:
        assert f"usage: python src/{verb}.py" in text.lower()


@pytest.mark.slow
@pytest.mark.parametrize("task", sorted(BUILT_IN))
def test_every_key_stands_on_the_page_of_keys_with_its_default(site: Path, task: str) -> None:
    rows = (site / "configuration.html").read_text(encoding="utf-8")
    keys = set(re.findall(r"<tr>\s*<td><code>([\w.]+)</code></td>", rows))

    def walk(kind: type, prefix: str = "") -> set[str]:
        found: set[str] = set()
        for item in fields(kind):  # type: ignore[arg-type]
            nested = is_dataclass(item.type)
            found |= walk(item.type, f"{prefix}{item.name}.") if nested else {prefix + item.name}  # type: ignore[arg-type]
        return found

    assert walk(schema_of(task)) <= keys
    assert re.search(
        r"<code>recipe\.beta2</code></td>\s*<td><code>0\.98</code></td>\s*<td>float, ≥ 0, &lt; 1</td>", rows
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "prefix"),
    [(SlurmSettings, "hydra.launcher."), (RaySettings, "hydra.launcher."), (SignificanceConfig, "significance.")],
)
def test_keys_of_launchers_and_tables_stand_there_with_their_meaning(site: Path, settings: type, prefix: str) -> None:
    page = (site / "configuration.html").read_text(encoding="utf-8")
    for key, default, _, meaning in docs_site.keys(settings, prefix):
        assert meaning
        assert re.search(rf"<code>{key[1:-1]}</code></td>\s*<td><code>{re.escape(default[1:-1])}</code>", page), key


def test_every_key_of_a_translation_run_says_what_it_means() -> None:
    silent = [key for key, *_, meaning in docs_site.keys(schema_of("translation")) if not meaning]
    assert silent == []


@pytest.mark.slow
def test_a_link_to_a_source_file_leads_to_its_copy(site: Path) -> None:
    assert 'href="source/src/variations/training/step.py.html"' in (site / "tour.html").read_text(encoding="utf-8")
    assert "def " in words(site / "source/src/variations/training/step.py.html")


@pytest.mark.slow
def test_each_theme_has_its_pictures(site: Path) -> None:
    page = (site / "dashboard.html").read_text(encoding="utf-8")
    light = re.findall(r'src="images/([\w-]+)-light\.png#only-light"', page)
    dark = re.findall(r'src="images/([\w-]+)-dark\.png#only-dark"', page)
    assert light == dark and len(light) > 5
    assert '-light.png"' not in page


@pytest.mark.slow
def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")
    loaded = re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"(https?:[^\"]+)", page)
    assert loaded == []


@pytest.mark.slow
def test_every_picture_and_link_of_a_page_leads_to_a_file(site: Path) -> None:
    lost, pictures = [], 0
    for page in site.rglob("*.html"):
        text = re.sub(r"<pre.*?</pre>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for name, target in re.findall(r'\b(src|srcset|href)="(?!\w+:|#|/)([^"#?]+)', text):
            pictures += name == "srcset"
            if not (page.parent / html.unescape(target)).exists():
                lost.append(f"{page.relative_to(site)}: {target}")
    assert lost == [] and pictures  # README's picture in two themes
