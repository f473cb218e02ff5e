"""Common members of the tasks translation and parsing. Importing it imports no torch."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from variations.configuration.rules import Fault, switched_off
from variations.configuration.transformer import BranchConfig, ModelConfig
from variations.store.ledger import RunFolder
from variations.tasks.base import Size
from variations.tasks.sequences.config import batches_of_device
from variations.tasks.task import Task

UNSCALED = "unscaled"
"""Said of a recipe that keeps the paper's widths, depths and steps."""
NOT_LEARNED = ("uniform", "random_per_step")
"""Values of `branch.train_mode` with which no κ and α are learned."""
OF_GATES = ("branch.gate.k", "branch.gate.renormalise", "branch.gate.gradient")
OF_LEARNED_WEIGHTS = tuple(
    f"branch.{key}" for key in ("kappa", "alpha", "lr_scale", "warmup", "freeze_last", "center_grad")
)


class SequenceTask(Task):
    """From a sequence to a sequence by a network of `models/` (see `tasks/task.py` for each member)."""

    test_only: Sequence[str] = ("branch.eval_mode", "branch.eval_seed")

    symbols: Mapping[str, str] = {
        "model.kind": "model",
        "model.N": "N",
        "model.d_model": "d_model",
        "model.d_ff": "d_ff",
        "model.h": "heads",
        "model.dropout": "P_drop",
        "recipe.label_smoothing": "ε_ls",
        "data.name": "data",
        "data.vocabulary": "vocabulary",
        "positions.kind": "positions",
        "branch.M": "M",
        "branch.kappa": "κ learned",
        "branch.alpha": "α learned",
        "branch.train_mode": "κ and α in training",
        "branch.eval_mode": "κ and α at test",
    }
    silent: Sequence[str] = ("trainer.val_bleu",)

    flops_counted = (
        "counted: matrix products on real tokens, 2 for each multiply-add, times 3 for forward and backward pass"
    )

    def effective(self, flat: dict[str, Any]) -> dict[str, Any]:
        """Defaults are d_k = d_v = d_model / h, and M = h; weights that are not learned are 1/M at test time."""
        flat = super().effective(flat)
        h, d_model = flat.get("model.h"), flat.get("model.d_model")
        if h and d_model:
            model = ModelConfig(d_model=d_model, h=h, d_k=flat.get("model.d_k"), d_v=flat.get("model.d_v"))
            flat["model.d_k"], flat["model.d_v"] = model.head_widths
            if flat.get("model.kind") == "weighted":
                flat["branch.M"] = BranchConfig(M=flat.get("branch.M")).branches(model)
                if flat.get("branch.encoder") and flat.get("branch.decoder") in ("both", "both_shared_ffn"):
                    flat["model.h"] = flat["branch.M"]  # every attention is branched, with one head a branch
        gate = {key: flat.get(f"branch.gate.{key}") for key in ("kind", "k", "renormalise")}
        if gate["kind"] == "topk" and gate["k"] == flat.get("branch.M") and not gate["renormalise"]:
            flat["branch.gate.kind"] = "none"  # it keeps all branches
        if flat.get("branch.train_mode") in NOT_LEARNED and flat.get("branch.eval_mode") == "learned":
            flat["branch.eval_mode"] = "uniform"
        return flat

    def batches_of_update(self, config: Mapping[str, Any]) -> int | None:
        """How many: eight devices take the batches that one device takes in turn."""
        update, trainer = (config.get("recipe") or {}).get("batch_tokens"), config.get("trainer") or {}
        if not update:
            return None
        world = (trainer.get("devices") or 1) * (trainer.get("nodes") or 1)
        return batches_of_device(update, trainer.get("tokens_per_batch"), world) * world

    def without_effect(self, flat: Mapping[str, Any]) -> Mapping[str, Fault]:
        """Settings of branches, if the model has none, and keys that the value of another one switches off."""
        kind, off = str(flat.get("model.kind")), dict(super().without_effect(flat))
        if not flat.get("recipe.label_smoothing"):
            off |= switched_off(["recipe.smoothing"], "recipe.label_smoothing", "recipe.label_smoothing is 0")
        if flat.get("decode.beam") == 1:
            off |= switched_off(["decode.alpha"], "decode.beam", "decode.beam=1 does not rank hypotheses by length")
        if ":" in kind:  # a class of another package may read any of the others
            return off
        if flat.get("positions.kind") == "sinusoidal":
            off |= switched_off(["positions.max_length"], "positions.kind", "sinusoidal positions have no largest one")
        if flat.get("positions.kind") == "learned":
            off |= switched_off(["positions.form"], "positions.kind", "it is a key of positions=sinusoidal")
        if kind != "weighted":
            reason = f"model={kind} has no branches: add model=weighted, or leave it out"
            return off | switched_off(["branch"], "model.kind", reason)
        train_mode, eval_mode = flat.get("branch.train_mode"), str(flat.get("branch.eval_mode"))
        if not eval_mode.startswith("random"):
            reason = f"branch.eval_mode={eval_mode} draws nothing at random"
            off |= switched_off(["branch.eval_seed"], "branch.eval_mode", reason)
        if flat.get("branch.gate.kind") == "none":
            off |= switched_off(OF_GATES, "branch.gate.kind", "branch.gate.kind is none")
        if train_mode in NOT_LEARNED:
            reason = f"branch.train_mode={train_mode} learns no κ and α"
            off |= switched_off(OF_LEARNED_WEIGHTS, "branch.train_mode", reason)
        if flat.get("branch.constraint") in ("softmax", "softmax_xM"):
            reason = "the gradients of a softmax have the mean 0"
            off |= switched_off(["branch.center_grad"], "branch.constraint", reason)
        return off

    def label(self, config: Any) -> list[str]:
        """`["weighted", "N2", "d128", "toy"]`; with an attention of another package, its class after the kind; of a
        model of another package, only the class, `["MyModel", "toy"]`."""
        model = config.model
        if ":" in model.kind:
            return [model.kind.rpartition(":")[2], config.data.name]
        own = [model.attention.rpartition(":")[2]] if ":" in model.attention else []
        return [model.kind, *own, f"N{model.N}", f"d{model.d_model}", config.data.name]

    losses: Sequence[str] = ("loss", "nll")
    units: Sequence[str] = ("pairs", "source_tokens", "target_tokens", "padded_tokens", "flops")
    loss_unit = "target_tokens"
    monitor = "dev/nll"

    def profile(self, config: Any, device: str) -> Mapping[str, str]:
        """How attention and dropout masks are computed."""
        if device == "cpu":
            return {"attention": "bmm up to 512 x 512, else sdpa", "dropout_masks": "bytes"}
        from variations.models import model_class
        from variations.models.kernels import varlen

        if not model_class(config.model.kind).varlen:
            return {"attention": f"sdpa over padded batches: {config.model.kind} does not say varlen = True"}
        return {"attention": varlen.described(config, device)}

    def totals(self, counted: Mapping[str, float]) -> dict[str, Any]:
        """The fraction of batch positions that is not padding."""
        tokens = counted["source_tokens"] + counted["target_tokens"]
        return {"padding_efficiency": tokens / max(1, counted["padded_tokens"])}

    nearness = "chrF"

    def outputs(self, folder: RunFolder, part: str) -> Sequence[tuple[str, ...]]:
        """The stored texts of the run."""
        from variations.tasks.sequences.stored import side_by_side

        return side_by_side(folder.hypotheses, part, "src", "ref", "hyp")

    def near(self, outputs: Sequence[str], references: Sequence[str]) -> list[float]:
        """chrF2 of each; BLEU would often be 0, since early outputs share no 4-gram with their reference."""
        from sacrebleu.metrics.chrf import CHRF

        metric = CHRF()
        return [metric.sentence_score(ours, [one]).score for ours, one in zip(outputs, references, strict=True)]

    sizes: Mapping[str, str] = {
        "vocabulary": "vocabulary",
        "parameters_t2t": "with 40,960 rows",
        "published_params_millions": "printed (M)",
        "reproduced_t2t": "reproduced",
        "reproduced": "",
        "branch_weights": "κ, α",
    }
    untimed: Sequence[str] = (
        "recipe.label_smoothing",
        "branch.lr_scale",
        "branch.warmup",
        "branch.freeze_last",
        "branch.eval_mode",
        "branch.eval_seed",
    )
    switches: Sequence[str] = ("model.dropout", "model.attention_dropout", "model.relu_dropout")
    smaller = (
        "lower trainer.tokens_per_batch, in all rows (an update keeps its size, but not its pairs), or the model's size"
    )
    lengths: tuple[int, int] = (30, 30)
    """Tokens of a source and of a target, for counting sizes."""

    def settings(self, config: Any) -> str:
        """`N 6, d_model 512, d_ff 2048, heads 8, P_drop 0.1, ε_ls 0.1`."""
        words = {"N": "N", "d_model": "d_model", "d_ff": "d_ff", "h": "heads", "dropout": "P_drop"}
        told = [f"{word} {getattr(config.model, key):g}" for key, word in words.items()]
        return ", ".join([*told, f"ε_ls {config.recipe.label_smoothing:g}"])

    def scaled_sizes(self, config: Mapping[str, Any]) -> str | None:
        """`N = 3, d_model = 128, d_ff = 512, h = 8`, with the scale of the recipe applied."""
        scale, model = (config.get("recipe") or {}).get("scale") or {}, config.get("model") or {}
        if scale.get("width", 1) == scale.get("depth", 1) == 1:
            return None
        return ", ".join(f"{key} = {model[key]}" for key in ("N", "d_model", "d_ff", "h") if key in model)

    def size(self, config: Any, *, memory: bool, vocabulary: int | None = None) -> Size:
        """Count without weights and without data."""
        from variations.tasks.sequences.counting import counted

        return counted(config, vocabulary, self.lengths, memory=memory)

    def size_remarks(self, tables: Mapping[str, Sequence[Size]]) -> list[str]:
        """Conventions of parameters, FLOPs and memory, and how many printed counts are reproduced."""
        if not any(tables.values()):
            return []
        from variations.tasks.sequences.counting import remarks

        source, target = self.lengths
        return [
            *remarks(tables),
            "FLOPs: of the whole training, 3 × 2 × multiply-accumulates of matrix products, for batches without "
            f"padding, of pairs of {source} and {target} tokens. "
            "The papers' own figures are hours times sustained speed.",
        ]

    def one_of(self, config: Any, devices: int) -> Any:
        """The configuration with one device's share of the update's tokens."""
        trainer, tokens = config.trainer, max(1, config.recipe.batch_tokens // devices)
        if trainer.tokens_per_batch is not None:
            trainer = replace(trainer, tokens_per_batch=min(trainer.tokens_per_batch, tokens))
        return replace(config, trainer=trainer, recipe=replace(config.recipe, batch_tokens=tokens))


RESIZING = ("size", "model.N", "model.d_model", "model.d_ff", "trainer.max_steps")
"""Overrides that replace what a recipe scales."""


def scale_name(config: Mapping[str, Any]) -> str:
    """`widths × 0.25, depths × 0.5, steps × 0.009 of the paper's`, or `unscaled`."""
    scale = (config.get("recipe") or {}).get("scale") or {}
    factors = [(f"{key}s", scale.get(key, 1)) for key in ("width", "depth")] + [("steps", scale.get("steps", 1))]
    shrunk = [f"{what} × {factor:g}" for what, factor in factors if factor != 1]
    return f"{', '.join(shrunk)} of the paper's" if shrunk else UNSCALED


def resized(config: Mapping[str, Any]) -> list[str]:
    """The overrides in RESIZING that a run's sweep gave to all of its rows."""
    sweep = config.get("sweep") or {}
    lines = dict.fromkeys([*(sweep.get("overrides") or []), *(sweep.get("typed") or [])])
    return [line for line in lines if str(line).partition("=")[0] in RESIZING]
