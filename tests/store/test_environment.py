"""environment.json records where a run was made and contains no secrets."""

import subprocess
from pathlib import Path

import pytest

from variations.store.environment import LARGEST_DIFF, environment, git_state
from variations.store.hidden import clean
from variations.store.ledger import RunFolder


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=A", "-c", "user.email=a@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "file.txt").write_text("one\n")
    git(folder, "add", "file.txt")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def test_a_clean_checkout_is_its_commit(checkout: Path) -> None:
    state = git_state(checkout)
    assert state["commit"] == git(checkout, "rev-parse", "HEAD")
    assert (state["branch"], state["dirty"], state["diff"], state["remote"]) == ("main", False, "", None)


def test_a_checkout_of_a_commit_has_no_branch_and_one_without_commits_no_state(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "checkout", "-q", "--detach")
    assert git_state(checkout)["branch"] == git(checkout, "rev-parse", "--abbrev-ref", "HEAD") == "HEAD"
    git(tmp_path, "init", "-q", "empty")
    assert git_state(tmp_path / "empty") == {}


def test_a_repository_around_an_installed_package_is_not_the_projects(checkout: Path) -> None:
    (checkout / "file.txt").write_text("my unpublished idea\n")
    inside = checkout / ".venv/lib/python3.11"
    inside.mkdir(parents=True)
    assert git_state(inside) == {}
    assert "my unpublished idea" in git_state(checkout)["diff"]


def test_the_commit_is_known_without_a_status(checkout: Path) -> None:
    commit = git(checkout, "rev-parse", "HEAD")
    (checkout / ".git/index").write_bytes(b"damaged")
    assert git_state(checkout) == {"commit": commit, "dirty": None}


def test_a_renamed_and_a_new_file_are_changes(checkout: Path) -> None:
    git(checkout, "mv", "file.txt", "other.txt")
    assert git_state(checkout)["untracked"] == []
    assert "rename to other.txt" in git_state(checkout)["diff"]
    git(checkout, "reset", "-q", "--hard")
    (checkout / "a file.txt").write_text("x")
    state = git_state(checkout)
    assert (state["dirty"], state["untracked"], state["diff"]) == (True, ["a file.txt"], "")


def test_uncommitted_changes_are_kept_without_secrets(checkout: Path) -> None:
    (checkout / "file.txt").write_text('two\napi_key = "abc123"\nbatch_tokens: 4096\n')
    (checkout / "new.txt").write_text("x")
    git(checkout, "remote", "add", "origin", "https://user:hunter2@example.org/project.git")
    state = git_state(checkout)
    assert state["dirty"] is True
    assert state["untracked"] == ["new.txt"]
    assert "+two" in state["diff"]
    assert "+batch_tokens: 4096" in state["diff"]
    assert "abc123" not in state["diff"]
    assert state["remote"] == "https://example.org/project.git"


def test_a_large_diff_is_cut_and_says_by_how_much(checkout: Path) -> None:
    (checkout / "file.txt").write_text("x\n" * 150_000)
    state = git_state(checkout)
    assert len(state["diff"]) == LARGEST_DIFF
    assert state["diff_cut_characters"] > 0


def test_a_folder_that_is_no_checkout_has_no_git_state(tmp_path: Path) -> None:
    assert git_state(tmp_path) == {}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("recipe.batch_tokens=4096", "recipe.batch_tokens=4096"),
        ("logger.api_key=abc", "logger.api_key=hidden"),
        ("+password=abc", "+password=hidden"),
        ("data.root=https://me:pw@host/x", "data.root=https://host/x"),
    ],
)
def test_the_command_line_keeps_its_settings_and_loses_its_secrets(given: str, kept: str) -> None:
    assert clean(given) == kept


def test_facts_are_there_and_environment_variables_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0123456789secret")
    facts = environment({"train.en": "ab12"}, command=["train.py", "seed=1"])
    assert facts["command"] == ["train.py", "seed=1"]
    assert facts["data"] == {"train.en": "ab12"}
    assert facts["packages"]["torch"].startswith("2.")
    assert facts["cores"] >= 1
    assert facts["memory_bytes"] > 0
    assert isinstance(facts["gpus"], list)
    folder = RunFolder(tmp_path)
    folder.write_environment(facts)
    assert "0123456789secret" not in (tmp_path / "environment.json").read_text()
    assert folder.environment() == facts
