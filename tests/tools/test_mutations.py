"""The seeded bugs can be applied: each matches the place in its file and lists existing tests."""

import yaml

import mutations


def test_every_seeded_bug_is_found_once_and_names_its_tests() -> None:
    bugs = [mutations.Bug(**entry) for entry in yaml.safe_load(mutations.BUGS.read_text(encoding="utf-8"))]
    assert len(bugs) >= 60
    assert list(mutations.faults(bugs)) == []


def test_a_bug_whose_place_is_gone_is_named() -> None:
    bug = mutations.Bug("nothing", "tools/mutations.py", "no such " + "text", "other", ["tests/tools/nothing.py"])
    assert [fault.partition(": ")[0] for fault in mutations.faults([bug])] == ["nothing", "nothing"]
