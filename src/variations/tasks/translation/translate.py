"""The verb `translate`: from standard input to standard output, line by line, as lines arrive.

Lines are translated in groups: a group is closed when it is full, or when no further line arrives for a moment, so
that a file is translated quickly and a slow pipe without delay. On a terminal, each line is translated alone.
"""

import dataclasses
import io
import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any, TextIO, cast

from variations.configuration.extras import need
from variations.configuration.schema import choice, number
from variations.store.ledger import RunFolder
from variations.system.errors import UserError
from variations.tasks.base import Verb
from variations.tasks.sequences.config import DecodeConfig
from variations.tasks.translation.config import TranslationConfig

if TYPE_CHECKING:
    from torch import nn

    from variations.tasks.sequences.decoding.translator import Translation, Translator
    from variations.tasks.translation.data.subwords import Subwords
    from variations.tasks.translation.inspection.sentences import Alignment

PATIENCE = 0.05
"""Seconds that a group waits for further lines, counted from its first line."""

PROMPT = "> "

Load = Callable[[Path], "tuple[nn.Module, Any]"]
"""Loads the tested network of a run's folder, with its configuration."""


def _bounded_as(key: str) -> Any:
    """Field that is null or within the bounds of a run's `decode` key."""
    bounds = {item.name: item.metadata for item in dataclasses.fields(DecodeConfig)}
    return field(default=None, metadata=bounds[key])


@dataclass
class BeamConfig:
    """Beam search; null: as in the run's test."""

    beam: int | None = _bounded_as("beam")
    alpha: float | None = _bounded_as("alpha")
    max_extra: int | None = _bounded_as("max_extra")
    batch_tokens: int | None = _bounded_as("batch_tokens")


@dataclass
class TranslateConfig:
    """Keys of `translate.py`."""

    run: str | None = None
    """Folder of a run, which is the last line that training prints."""
    decode: BeamConfig = field(default_factory=BeamConfig)
    nbest: int = number(1, ge=1)
    """Number of translations of each line, at most decode.beam."""
    format: str = choice("text", "text", "json")
    """`text`: the translation, or, with nbest above 1, line number, rank, score and translation between tabs.
    `json`: one JSON document per line."""
    batch: int = number(512, ge=1)
    """Largest number of lines that are translated together, sorted by length."""
    accelerator: str = choice("auto", "auto", "cpu", "gpu")
    """`auto`: a GPU if there is one."""
    decoder: str = choice("torch", "torch", "ctranslate2")
    """`ctranslate2`: beam search by CTranslate2 on the CPU, for the plain Transformer. It ends and ranks hypotheses by
    other rules, so some translations differ from those of the run's test."""
    attention: bool = False
    """Write the cross-attention of each translation to its JSON document (format=json), and drawings to out=DIR."""
    attention_layer: int | None = number(None, ge=1)
    """Layer whose cross-attention is written, averaged over its heads; null: the average over all layers."""
    out: str | None = None
    """Folder for a drawing of each line's best translation, line-000001.svg and so on."""


@dataclass(frozen=True)
class InputLine:
    """A line of the input."""

    number: int
    text: str
    damaged: bool = False
    """Whether it contained bytes that are not UTF-8; each was replaced by U+FFFD."""


def translate(config: TranslateConfig, load_network: Load) -> None:
    """Translate standard input line by line with a trained run, to standard output.

    Any line is accepted, and translations are written in order; cut lines are reported on standard error.

    Raises:
        UserError: There is no such run, or keys contradict each other.
    """
    check_attention(config)
    if config.attention and config.out is not None:
        need("dashboard", f"out={config.out}: drawing")
    if config.decoder == "ctranslate2":
        need("export", "decoder=ctranslate2")
    translator = load(config, load_network)
    import torch

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")
    asking = sys.stdin.isatty()
    # Our own stream: at exit Python locks sys.stdin, which the reading thread may still hold.
    lines = ask() if asking else read(os.fdopen(sys.stdin.fileno(), "rb", closefd=False))
    with torch.inference_mode():
        for group in ([line] for line in lines) if asking else groups(lines, config.batch):
            try:
                answer(translator, group, config, sys.stdout)
            except KeyboardInterrupt:
                if not asking:
                    raise
                print("\nThat translation was cancelled. Press Ctrl-D to quit.", file=sys.stderr)


def check_attention(config: TranslateConfig) -> None:
    """Raise a UserError if the keys about attention contradict each other."""
    if config.attention and config.format != "json" and config.out is None:
        raise UserError("attention=true has no output: add format=json, or out=DIR for a drawing of each line.")
    if not config.attention and (config.out is not None or config.attention_layer is not None):
        key = "out" if config.out is not None else "attention_layer"
        raise UserError(f"{key} is for attention maps: add attention=true, or remove {key}.")


def load(config: TranslateConfig, load_network: Load) -> "Translator":
    """The run's model and sub-words, with the search that `config` asks for.

    Raises:
        UserError: `run` is missing or is not a folder, or as `translator_of`.
    """
    if config.run is None:
        raise UserError("There is no run to translate with: give run=FOLDER, the folder that training printed last.")
    folder = Path(config.run).expanduser()
    if not folder.is_dir():
        raise UserError(f"The run folder {config.run} does not exist: give the folder that training printed last.")
    return translator_of(config, *load_model(folder, load_network))


def translator_of(
    config: TranslateConfig, model: "nn.Module", subwords: "Subwords", run: TranslationConfig
) -> "Translator":
    """A model with the search that `config` asks for.

    Raises:
        UserError: nbest is more than the beam, or there is no GPU.
    """
    decode = search_config(config, run)
    import torch

    from variations.tasks.sequences.decoding.translator import Translator, as_tested

    has_gpu = torch.cuda.is_available()
    if config.accelerator == "gpu" and not has_gpu:
        raise UserError("accelerator=gpu, but torch finds no GPU here: use accelerator=cpu or accelerator=auto.")
    device = "cuda" if has_gpu and config.accelerator != "cpu" else "cpu"
    if isinstance(model, torch.nn.Module):
        model.to(device).eval()
    if config.decoder == "ctranslate2":
        from variations.tasks.translation.exporting import ExportedTranslator

        return ExportedTranslator(cast(Any, model), subwords, decode, device="cpu", **as_tested(run))
    return Translator(cast(Any, model), subwords, decode, device=device, **as_tested(run))


def load_model(path: Path, load_network: Load) -> "tuple[nn.Module, Subwords, TranslationConfig]":
    """The network of a run as it was tested, its vocabulary and its configuration.

    Raises:
        UserError: There is no such run, it is not of translation, or it has no checkpoint or no vocabulary.
    """
    from variations.tasks.translation.data.subwords import subwords_of

    network, config = load_network(path)
    if config.task != "translation":
        raise UserError(f"{path} is a run of task={config.task}: give one of task=translation.")
    return network, subwords_of(config, RunFolder.open(path)), config


def search_config(config: TranslateConfig, run: TranslationConfig) -> DecodeConfig:
    """The run's own search with the user's changes.

    Raises:
        UserError: nbest is more than the beam.
    """
    asked = {key: value for key, value in dataclasses.asdict(config.decode).items() if value is not None}
    found = dataclasses.replace(run.decode, **asked, nbest=config.nbest)
    if found.nbest > found.beam:
        raise UserError(
            f"nbest={found.nbest} is more than decode.beam={found.beam}: set nbest to at most {found.beam}, "
            f"or decode.beam={found.nbest}."
        )
    return found


def read(stream: Iterable[bytes]) -> Iterator[InputLine]:
    """Lines of a byte stream. Only a newline ends a line: Unicode's other separators are text."""
    for count, raw in enumerate(stream, start=1):
        raw = raw.removesuffix(b"\n").removesuffix(b"\r")
        if count == 1:
            raw = raw.removeprefix(b"\xef\xbb\xbf")  # byte-order mark
        try:
            yield InputLine(count, raw.decode("utf-8"))
        except UnicodeDecodeError:
            yield InputLine(count, raw.decode("utf-8", "replace"), damaged=True)


def ask() -> Iterator[InputLine]:
    """Lines from a terminal, with a prompt, until Ctrl-D."""
    if sys.stdout.isatty():
        import readline  # noqa: F401 - gives `input` history and editing
    count = 0
    while True:
        count += 1
        try:
            if sys.stdout.isatty():
                text = input(PROMPT)
            else:  # `input` would write the prompt among the translations
                print(PROMPT, end="", file=sys.stderr, flush=True)
                text = input()
        except EOFError:
            print(file=sys.stderr)
            return
        except KeyboardInterrupt:  # as in a shell: what was typed is dropped
            print("\nPress Ctrl-D to quit.", file=sys.stderr)
            count -= 1
            continue
        except UnicodeDecodeError:
            print("That line is not valid UTF-8; please type it again.", file=sys.stderr)
            count -= 1
            continue
        yield InputLine(count, text)


def groups(lines: Iterable[InputLine], size: int, patience: float = PATIENCE) -> Iterator[list[InputLine]]:
    """Groups of at most `size` lines in their order; each waits at most `patience` seconds for further lines.

    Raises:
        OSError: reading failed; the lines before have been yielded.
    """
    waiting: Queue[InputLine | None] = Queue(maxsize=2 * size)
    failures: list[OSError] = []

    def fill() -> None:
        try:
            for line in lines:
                waiting.put(line)
        except OSError as error:
            failures.append(error)
        finally:
            waiting.put(None)

    threading.Thread(target=fill, daemon=True, name="reader").start()
    line = waiting.get()
    while line is not None:
        group: list[InputLine] = []
        until = time.monotonic() + patience
        while line is not None:
            group.append(line)
            if len(group) == size:
                break
            try:
                line = waiting.get(timeout=max(0.0, until - time.monotonic()))
            except Empty:
                break
        yield group
        if line is not None:
            line = waiting.get()
    if failures:
        raise failures[0]


def answer(translator: "Translator", group: list[InputLine], config: TranslateConfig, out: TextIO) -> None:
    """Translate a group, write it to `out`, and report on standard error what was cut or replaced."""
    progress = not sys.stdout.isatty()  # on the terminal the translations themselves show it
    for line, found in zip(group, translator.translate([line.text for line in group], progress=progress), strict=True):
        maps = attention(translator, line, found, config) if config.attention else None
        out.write(as_json(line, found, maps) if config.format == "json" else as_text(line, found, config.nbest))
        for remark in remarks(line, found):
            print(f"line {line.number}: {remark}", file=sys.stderr)
    out.flush()


def attention(
    translator: "Translator", line: InputLine, found: "Translation", config: TranslateConfig
) -> "list[Alignment | None]":
    """Cross-attention of a line's translations; that of the best one is also drawn if `config.out` is set.

    Raises:
        UserError: There is no such layer, or the drawing cannot be written.
    """
    from variations.tasks.translation.inspection.sentences import alignments, draw_alignment

    maps = alignments(translator, found, config.attention_layer)
    if config.out is not None and maps[0] is not None:
        draw_alignment(maps[0], Path(config.out).expanduser() / f"line-{line.number:06d}.svg", config.attention_layer)
    return maps


def as_text(line: InputLine, found: "Translation", nbest: int) -> str:
    """One line of text, or `number<TAB>rank<TAB>score<TAB>text` for each of several translations."""
    if nbest == 1:
        return one_line(found.outputs[0].text) + "\n"
    return "".join(
        f"{line.number}\t{rank}\t{output.hypothesis.score:.6f}\t{one_line(output.text)}\n"
        for rank, output in enumerate(found.outputs, start=1)
    )


def one_line(text: str) -> str:
    """The text without tabs and without any separator that a program could take for the end of a line."""
    return " ".join(text.replace("\t", " ").splitlines())


def as_json(line: InputLine, found: "Translation", maps: "Sequence[Alignment | None] | None" = None) -> str:
    """A JSON document on one line; a score that is not finite is null. `maps` adds attention maps."""
    document: dict[str, Any] = {
        "line": line.number,
        "source": line.text,
        "source_subwords": found.source_length,
        "truncated_to": found.translated_length if found.truncated else None,
        "translations": [
            {
                "text": output.text,
                "score": _finite(output.hypothesis.score),
                "log_probability": _finite(output.hypothesis.log_probability),
                "finished": output.hypothesis.finished,
            }
            for output in found.outputs
        ],
    }
    for entry, alignment in zip(document["translations"], maps or (), strict=False):
        entry["attention"] = None if alignment is None else alignment.document()
    text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    for separator in "\x85\u2028\u2029":  # JSON allows them, but some readers end a line there
        text = text.replace(separator, f"\\u{ord(separator):04x}")
    return text + "\n"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def remarks(line: InputLine, found: "Translation") -> Iterator[str]:
    """Messages about a line that was cut or damaged, or has unknown characters."""
    if line.damaged:
        yield "not valid UTF-8; the invalid bytes were replaced."
    if found.unknown:
        stand = "sub-words stand" if found.unknown > 1 else "sub-word stands"
        yield f"{found.unknown} {stand} for characters that never occurred in training."
    if found.cut:
        yield found.cut
    best = found.outputs[0].hypothesis
    if not best.finished:
        yield f"the translation was cut off after {len(best.tokens)} sub-words, before its end."


VERB = Verb(
    translate,
    TranslateConfig,
    examples={
        "run=runs/single/NAME/seed1 < input.txt > output.txt": "",
        "run=runs/single/NAME/seed1 nbest=4 format=json decode.beam=8": "",
        "run=RUN attention=true format=json": "",
        "run=RUN attention=true out=maps < input.txt > output.txt": "",
    },
)
