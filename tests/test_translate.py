"""translate.py: standard input to standard output, with a model that repeats every line."""

import io
import json
import math
import os
import subprocess
import sys
import textwrap
import threading
import types
from pathlib import Path

import pytest

from variations.configuration.faults import check
from variations.system.errors import ExitCode, UserError
from variations.tasks.sequences.config import DecodeConfig
from variations.tasks.sequences.decoding import translator
from variations.tasks.translation import translate as translating
from variations.tasks.translation.config import TranslationConfig
from variations.tasks.translation.translate import (
    BeamConfig,
    InputLine,
    TranslateConfig,
    ask,
    groups,
    one_line,
    read,
    search_config,
)

ROOT = Path(__file__).resolve().parents[1]
PAD, BOS, EOS = 0, 1, 2
OFFSET = 4
SCRIPT = textwrap.dedent(
    """
    import sys, importlib.util
    spec = importlib.util.spec_from_file_location("fakes", sys.argv[1])
    fakes = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fakes)
    from variations.tasks.translation import translate as verb
    verb.load_model = fakes.load_model
    from variations.tasks.translation.translate import TranslateConfig, translate
    from variations.system.streams import prepare
    prepare(work_goes_on=False)
    translate(TranslateConfig(run=sys.argv[2]), None)
    """
)


class Bytes:
    """Maps each byte of UTF-8 to one identifier."""

    def encode(self, lines):
        return [[byte + OFFSET for byte in line.strip().encode()] + [EOS] for line in lines]

    def decode(self, ids):
        return [bytes(i - OFFSET for i in row if i >= OFFSET).decode("utf-8", "replace") for row in ids]


class Parrot:
    """Repeats the source; its second choice replaces the first byte with `?`."""

    start_id = PAD

    def start_cache(self, source):
        self.at = 0
        return types.SimpleNamespace(source=source, select=lambda rows, sentences=None: self._select(rows))

    def _select(self, rows):
        self.rows = rows

    def decode_step(self, tokens, cache):
        import torch

        if self.at:
            cache.source = cache.source[self.rows] if self.rows is not None else cache.source
        self.rows = None
        at, width = self.at, cache.source.size(1)
        wanted = cache.source[:, min(at, width - 1)].clone()
        wanted[(wanted == PAD) | (at >= width)] = EOS
        logits = torch.full((len(tokens), 256 + OFFSET), -30.0)
        if at == 0:
            logits[:, ord("?") + OFFSET] = 1.0
        logits[torch.arange(len(tokens)), wanted] = 3.0
        self.at += 1
        return logits


def load_model(folder, load_network=None):
    config = TranslationConfig()
    config.data.max_length = 40
    return Parrot(), Bytes(), config


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Call translate with bytes on standard input; return (output, remarks)."""
    monkeypatch.setattr(translating, "load_model", load_model)
    monkeypatch.setattr(translator, "LONGEST_SOURCE", 40)

    def call(text: bytes, **options):
        file = tmp_path / "input"
        file.write_bytes(text)
        with file.open(encoding="utf-8") as stream:
            monkeypatch.setattr(sys, "stdin", stream)
            translating.translate(TranslateConfig(run=str(tmp_path), accelerator="cpu", **options), None)
        return capsys.readouterr()

    return call


def test_one_line_of_output_for_each_of_input_in_order(run):
    lines = ["a man", "", "two dogs play", "x", "  ", "the end"]
    expected = "".join(line.strip() + "\n" for line in lines)
    for size in (1, 2, 512):
        assert run("\n".join(lines).encode(), batch=size) == (expected, "")
    assert run(b"") == ("", "")
    assert run(b"\n") == ("\n", "")


def test_strange_lines_go_through_and_remarks_name_their_number(run):
    text = b"caf\xe9 bad\n" + "日本語\n".encode() + b"nul\x00 bell\x07\r\n" + b"y" * 100 + b"\nA\xe2\x80\xa8B\x0c\nend"
    out, remarks = run(text)
    assert out.split("\n") == ["caf\ufffd bad", "日本語", "nul  bell", "y" * 39, "A B", "end", ""]
    assert remarks.splitlines() == [
        "line 1: not valid UTF-8; the invalid bytes were replaced.",
        "line 4: too long: of 101 sub-words only the first 40 were read (end of sentence counted).",
    ]


def test_translation_that_does_not_end_is_mentioned(run, monkeypatch):
    out, remarks = run(b"abcdef", decode=BeamConfig(max_extra=0))
    assert (out, remarks) == ("abcdef\n", "")
    monkeypatch.setattr(Parrot, "start_id", PAD)
    step = Parrot.decode_step

    def endless(self, tokens, cache):
        logits = step(self, tokens, cache)
        logits[:, EOS] = -math.inf
        return logits

    monkeypatch.setattr(Parrot, "decode_step", endless)
    out, remarks = run(b"abc", decode=BeamConfig(max_extra=0))
    assert remarks == "line 1: the translation was cut off after 4 sub-words, before its end.\n"


def test_n_best_text_has_line_rank_score_and_text(run):
    out, _ = run(b"hi\n\nyo", nbest=2)
    rows = [line.split("\t") for line in out.splitlines()]
    assert [(row[0], row[1], row[3]) for row in rows] == [
        ("1", "1", "hi"),
        ("1", "2", "?i"),
        ("2", "1", ""),
        ("3", "1", "yo"),
        ("3", "2", "?o"),
    ]
    # P(h) = e^3 / (e^3 + e^1), P(?) = e^1 / (e^3 + e^1), |Y| = 3
    penalty = (8 / 6) ** 0.6
    assert float(rows[0][2]) == pytest.approx(-math.log1p(math.exp(-2)) / penalty, abs=1e-5)
    assert float(rows[1][2]) == pytest.approx((-2 - math.log1p(math.exp(-2))) / penalty, abs=1e-5)


def test_json_is_one_document_a_line(run):
    out, _ = run("hi\n\n\x85 \u2028 z\n".encode() + b"w" * 60, format="json", nbest=2)
    documents = [json.loads(line) for line in out.splitlines()]
    assert [document["line"] for document in documents] == [1, 2, 3, 4]
    assert [item["text"] for item in documents[0]["translations"]] == ["hi", "?i"]
    first = documents[0]["translations"][0]
    assert first["finished"] is True
    assert first["score"] == pytest.approx(first["log_probability"] / (8 / 6) ** 0.6)
    assert documents[0]["source_subwords"] == 3 and documents[0]["truncated_to"] is None
    assert documents[1]["translations"] == [{"text": "", "score": 0.0, "log_probability": 0.0, "finished": True}]
    assert documents[2]["source"] == "\x85 \u2028 z"
    assert documents[3]["truncated_to"] == 40


def test_score_that_is_not_finite_is_null_in_json(run, monkeypatch):
    import torch

    monkeypatch.setattr(Parrot, "decode_step", lambda self, tokens, cache: torch.full((len(tokens), 260), math.nan))
    out, remarks = run(b"hi", format="json")
    found = json.loads(out)["translations"]
    assert found == [{"text": "", "score": None, "log_probability": None, "finished": False}]
    assert "cut off after 0 sub-words" in remarks


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_the_network_computes_in_the_precision_of_the_runs_test(precision, monkeypatch, run):
    import torch

    seen = []

    class Watched(Parrot):
        def decode_step(self, tokens, cache):
            seen.append(torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16)
            return super().decode_step(tokens, cache)

    def load(folder, load_network=None):
        _, subwords, config = load_model(folder)
        config.trainer.precision = precision
        return Watched(), subwords, config

    monkeypatch.setattr(translating, "load_model", load)
    run(b"ab\n")
    assert seen and set(seen) == {precision == "bf16-mixed"}


def test_search_is_the_runs_own_unless_asked_otherwise():
    own = TranslationConfig()
    own.decode = DecodeConfig(beam=5, alpha=1.0, max_extra=7, batch_tokens=99)
    assert search_config(TranslateConfig(), own) == DecodeConfig(5, 1.0, 7, 99, 1)
    asked = TranslateConfig(decode=BeamConfig(beam=8, alpha=0.0, max_extra=0, batch_tokens=1), nbest=8)
    assert search_config(asked, own) == DecodeConfig(8, 0.0, 0, 1, 8)


def test_keys_of_the_search_have_the_bounds_of_a_runs():
    asked = BeamConfig(beam=1 << 20, alpha=1000.0, max_extra=4_000_000_000, batch_tokens=1 << 30)
    assert [fault.text for fault in check(asked)] == [
        "beam=1048576: must be at most 10000.",
        "alpha=1000.0: must be at least 0 and at most 100.",
        "max_extra=4000000000: must be at most 1048576.",
        "batch_tokens=1073741824: must be at most 16777216.",
    ]
    assert not check(BeamConfig(beam=10_000, alpha=100.0, max_extra=1 << 20, batch_tokens=1 << 24))


def test_learned_positions_limit_outputs_and_every_run_reads_sources_as_its_test_did(monkeypatch, tmp_path):
    def load_learned(folder, load_network):
        model, subwords, config = load_model(folder)
        config.positions.kind, config.positions.max_length = "learned", 30
        return model, subwords, config

    monkeypatch.setattr(translating, "load_model", load_learned)
    found = translating.load(TranslateConfig(run=str(tmp_path)), None)
    assert (found.max_source, found.max_target) == (1024, 30)
    monkeypatch.setattr(translating, "load_model", load_model)
    found = translating.load(TranslateConfig(run=str(tmp_path)), None)
    assert (found.max_source, found.max_target) == (1024, None)
    monkeypatch.setattr(translator, "LONGEST_SOURCE", 39)
    assert translating.load(TranslateConfig(run=str(tmp_path)), None).max_source == 40  # data.max_length


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"run": None}, "give run=FOLDER"),
        ({"run": "no/such/run"}, "run folder no/such/run does not exist"),
        ({"nbest": 9}, "nbest=9 is more than decode.beam=4: set nbest to at most 4, or decode.beam=9"),
    ],
)
def test_faults_say_what_to_do(run, options, message):
    with pytest.raises(UserError) as caught:
        run(b"hi", **options) if "run" not in options else translating.translate(TranslateConfig(**options), None)
    assert message in str(caught.value)


def test_reading_ends_lines_at_newlines_only():
    stream = io.BytesIO(b"\xef\xbb\xbfone\r\ntw\x0bo\x1c\xe2\x80\xa8\n\n\xff")
    assert list(read(stream)) == [
        InputLine(1, "one"),
        InputLine(2, "tw\x0bo\x1c\u2028"),
        InputLine(3, ""),
        InputLine(4, "\ufffd", damaged=True),
    ]


def test_text_output_never_holds_a_line_end_or_tab():
    assert one_line("a\nb\x85c\u2028d\te\r\nf\x0c") == "a b c d e f"


def test_groups_are_full_when_lines_are_there_and_do_not_wait_when_not():
    lines = [InputLine(n, "") for n in range(1, 8)]
    found = list(groups(lines, 3, patience=5))
    assert [len(group) for group in found] == [3, 3, 1]
    assert [line for group in found for line in group] == lines

    more = threading.Event()

    def slowly():
        yield lines[0]
        yield lines[1]
        assert more.wait(20)
        yield lines[2]

    found = groups(slowly(), 3, patience=0.2)
    assert next(found) == lines[:2]  # before the third line exists
    more.set()
    assert list(found) == [lines[2:3]]


def test_lines_before_a_reading_fault_are_yielded_and_the_fault_is_raised():
    def broken():
        yield InputLine(1, "a")
        raise OSError("disk on fire")

    found = groups(broken(), 5)
    assert next(found) == [InputLine(1, "a")]
    with pytest.raises(OSError, match="disk on fire"):
        next(found)


def start(tmp_path, **streams):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "LC_ALL": "C", "PYTHONUTF8": "0"}
    command = [sys.executable, "-c", SCRIPT, __file__, str(tmp_path)]
    return subprocess.Popen(command, env=environment, cwd=tmp_path, **streams)


@pytest.mark.slow
def test_slow_pipe_is_answered_at_once_and_a_closed_reader_is_no_fault(tmp_path):
    pipe = subprocess.PIPE
    with start(tmp_path, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        for line in ("first\n", "zweite Übung\n"):
            process.stdin.write(line.encode())
            process.stdin.flush()
            assert process.stdout.readline().decode() == line  # while standard input stays open
        process.stdout.close()
        process.stdin.write(b"third\n")
        process.stdin.flush()
        assert process.wait(timeout=60) == ExitCode.UNREAD  # ends although standard input is still open
        assert process.stderr.read() == b""


@pytest.mark.slow
def test_terminal_gets_a_prompt_and_leaves_with_end_of_file(tmp_path):
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    with start(tmp_path, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        os.close(theirs)
        os.write(ours, b"hello\n")
        assert process.stdout.readline() == b"hello\n"
        os.write(ours, b"\x04")
        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == b"> > \n"
    os.close(ours)


def typed(monkeypatch, *answers):
    """Let `input` return these lines, or raise these exceptions, one after the other."""
    left = iter(answers)

    def answer(*_):
        found = next(left)
        if isinstance(found, BaseException):
            raise found
        return found

    monkeypatch.setattr("builtins.input", answer)


def test_ctrl_c_at_the_prompt_drops_the_line_and_asks_again(monkeypatch, capsys):
    typed(monkeypatch, KeyboardInterrupt(), "hello", EOFError())
    assert [(line.number, line.text) for line in ask()] == [(1, "hello")]
    assert "Press Ctrl-D to quit." in capsys.readouterr().err


def test_a_line_that_is_typed_again_is_counted_once(monkeypatch, capsys):
    unreadable = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
    typed(monkeypatch, "hello", unreadable, "world", EOFError())
    assert [(line.number, line.text) for line in ask()] == [(1, "hello"), (2, "world")]
    assert "not valid UTF-8; please type it again" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        ([], ["give run=FOLDER"]),
        (["run=no/such/run"], ["run folder no/such/run does not exist"]),
        (["decode.beam=0", "format=xml"], ["decode.beam=0: must be at least 1", "valid choices are text, json"]),
    ],
)
def test_command_line_faults_end_with_code_2_and_no_traceback(tmp_path, arguments, messages):
    command = [sys.executable, str(ROOT / "src" / "translate.py"), *arguments]
    done = subprocess.run(command, input="hi\n", capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 2 and done.stdout == ""
    assert all(message in done.stderr for message in messages)
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
