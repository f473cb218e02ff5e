"""`complexity.py`: every format from one small measurement, and faults reported at once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from variations.commands.complexity import ComplexityConfig, complexity, faults, same_command
from variations.planning.complexity.measure import Point
from variations.planning.complexity.report import crossing
from variations.system.errors import ConfigError, UserError

ROOT = Path(__file__).resolve().parents[2]
SMALL = {"n": [4, 8, 16], "d": [8, 16, 32], "heads": 2, "repeats": 2, "limit": 20.0}


@pytest.mark.slow
def test_json_holds_exact_counts_beside_measured_times(capsys):
    complexity(ComplexityConfig(**SMALL, format="json"))
    found = json.loads(capsys.readouterr().out)
    layers = {item["layer"]: item for item in found["layers"]}
    assert list(layers) == ["self_attention", "recurrent", "convolution", "separable", "restricted"]
    fits = {name: item["exponents"]["flops"] for name, item in layers.items()}
    assert (fits["self_attention"]["n"], fits["self_attention"]["d"]) == (pytest.approx(2), pytest.approx(1))
    assert (fits["recurrent"]["n"], fits["recurrent"]["d"]) == (pytest.approx(1), pytest.approx(2))
    assert layers["convolution"]["paper"]["path"] == "O(log_k n)"
    cell = layers["self_attention"]["cells"][-1]
    assert (cell["n"], cell["d"], cell["flops"], len(cell["samples"])) == (16, 32, 4 * 16 * 16 * 32, 2)
    assert found["settings"]["rounds"] == 2 and "CPU threads" in found["settings"]["hardware"]


@pytest.mark.parametrize("key", ["out", "plot"])
def test_a_place_that_cannot_be_written_is_told_before_anything_is_measured(key, tmp_path, monkeypatch):
    def measured(config: ComplexityConfig) -> None:
        raise AssertionError("measured for nothing")

    monkeypatch.setattr("variations.commands.complexity.measured", measured)
    (tmp_path / "taken.svg").mkdir()
    for place in ("/proc/nowhere/t.svg", str(tmp_path / "taken.svg")):
        with pytest.raises(UserError, match=f"Cannot write {place}: .*; choose another file with {key}=FILE"):
            complexity(ComplexityConfig(**SMALL, **{key: place}))
    assert [path.name for path in tmp_path.iterdir()] == ["taken.svg"]


@pytest.mark.slow
def test_markdown_and_plot_are_files_with_the_command_that_made_them(tmp_path, capsys):
    out, plot = tmp_path / "new" / "table.md", tmp_path / "new" / "table.svg"
    layers = ["self_attention", "restricted"]
    complexity(ComplexityConfig(**SMALL, layers=layers, format="markdown", out=str(out), plot=str(plot)))
    assert capsys.readouterr().out == ""
    text = out.read_text(encoding="utf-8")
    assert "layers=[self_attention,restricted]" in text and "repeats=2" in text
    assert "- At n = 4, 8, 16, all positions are within r, so nothing is restricted." in text
    assert "| Self-attention | O(n²·d) | O(1) | O(1) | 2.00, 1.00 | 2.00, 1.00 |" in text
    assert "![Time of one layer against n and against d](table.svg)" in text
    assert "sequence length n (d = 32)" in plot.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_terminal_shows_paper_and_measurement(capsys):
    complexity(ComplexityConfig(**SMALL, layers=["recurrent"]))
    out = capsys.readouterr().out
    assert "O(n·d²)" in out and "1.00, 2.00" in out and "a GRU" in out


def test_all_faults_are_told_at_once():
    config = ComplexityConfig(n=[8], d=[8, 12], heads=8, kernel=4, layers=["rnn"], plot="x.pdf")
    assert faults(config) == [
        "n=[8]: an exponent needs at least two different values, each at least 1.",
        "layers=['rnn']: valid choices are self_attention, recurrent, convolution, separable, restricted.",
        "d=[12]: not a multiple of heads=8; choose other widths or heads.",
        "kernel=4: must be odd, to give a position equally many neighbours on both sides.",
        "plot=x.pdf: must end in .svg or .png.",
    ]
    with pytest.raises(ConfigError):
        complexity(config)


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="choose another file with out=FILE"):
        complexity(ComplexityConfig(**SMALL, layers=["separable"], out=str(tmp_path / "file" / "x")))


def test_the_command_repeats_what_was_asked():
    asked = ComplexityConfig(n=[4, 8], projections=True, out="a b.md")
    assert same_command(asked) == "python src/complexity.py 'n=[4,8]' projections=true 'out=a b.md'"
    assert same_command(ComplexityConfig()) == "python src/complexity.py"


def test_who_is_faster_is_counted_on_both_sides_of_n_equal_d():
    times = {(4, 8): (1.0, 2.0), (8, 8): (3.0, 2.0), (16, 8): (1.0, 2.0)}
    points = []
    for (n, d), (ours, theirs) in times.items():
        points += [Point("self_attention", n, d, 1, [ours]), Point("recurrent", n, d, 1, [theirs])]
    assert crossing(points) == [
        "Self-attention took less time than recurrence in 1 of 1 cells with n < d and in 1 of 2 cells with n ≥ d."
    ]
    assert crossing(points[:1]) == []


@pytest.mark.slow
def test_a_typed_fault_ends_with_code_2():
    line = [sys.executable, str(ROOT / "src" / "complexity.py"), "kernel=2", "repeats=0"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd="/", timeout=60)
    assert done.returncode == 2 and done.stdout == ""
    assert "repeats=0: must be at least 1" in done.stderr
    assert "Traceback" not in done.stderr
