"""Translation as a task: what it owns and where it stands. Importing it imports no torch."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from variations.config import BranchConfig, ModelConfig, RunConfig
from variations.configuration.faults import Fault, Rules
from variations.errors import UserError
from variations.store.ledger import RunFolder
from variations.tasks.base import Samples
from variations.tasks.translation.config import TranslationConfig
from variations.tasks.translation.faults import RULES

if TYPE_CHECKING:
    from variations.tasks.translation.data.module import TranslationData
    from variations.tasks.translation.data.subwords import Subwords
    from variations.tasks.translation.experiment import TranslationExperiment


class Translation:
    """Text in one language becomes text in another (see `tasks/base.py` for each member)."""

    name = "translation"
    schema: type[RunConfig] = TranslationConfig
    rules: Rules = RULES
    other_names: Mapping[str, str] = {
        "beam_size": "decode.beam",
        "length_penalty": "decode.alpha",
        "lenpen": "decode.alpha",
        "vocab_size": "data.vocabulary",
    }
    incidental: Sequence[str] = ("data.root", "data.cache", "data.workers", "decode.attention")
    test_only: Sequence[str] = ("branch.eval_mode", "branch.eval_seed")

    symbols: Mapping[str, str] = {
        "model.kind": "model",
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
    silent: Sequence[str] = ("branch.eval_seed", "trainer.val_bleu")

    def effective(self, flat: dict[str, Any]) -> dict[str, Any]:
        """Widths left to the default are d_k = d_v = d_model / h, and M = h."""
        h, d_model = flat.get("model.h"), flat.get("model.d_model")
        if h and d_model:
            model = ModelConfig(d_model=d_model, h=h, d_k=flat.get("model.d_k"), d_v=flat.get("model.d_v"))
            flat["model.d_k"], flat["model.d_v"] = model.head_widths
            if flat.get("model.kind") == "weighted":
                flat["branch.M"] = BranchConfig(M=flat.get("branch.M")).branches(model)
        return flat

    def without_effect(self, flat: Mapping[str, Any]) -> Sequence[str]:
        """Settings of the branches, where the model has none."""
        return () if flat.get("model.kind") == "weighted" else ("branch",)

    def label(self, config: TranslationConfig) -> list[str]:
        """`["weighted", "N2", "d128", "toy"]`."""
        return [config.model.kind, f"N{config.model.N}", f"d{config.model.d_model}", config.data.name]

    def own_text(self, config: Mapping[str, Any]) -> bool:
        """Whether the corpus is a folder of the user's."""
        return (config.get("data") or {}).get("kind") == "folder"

    def idle(self, typed: Sequence[str], configs: Sequence[TranslationConfig]) -> list[Fault]:
        """Settings of the branches for models of which none has branches."""
        if any(config.model.kind == "weighted" for config in configs):
            return []
        kind = configs[0].model.kind
        return [
            Fault(("model.kind",), f"{line} has no effect with model={kind}: add model=weighted, or leave it out.")
            for line in typed
            if line.startswith(("branch=", "branch."))
        ]

    def missing(self, config: TranslationConfig) -> list[str]:
        """The corpus' folder, if one is named and is not there."""
        root = config.data.root
        if root is None or Path(root).expanduser().is_dir():
            return []
        return [f"data.root={root}: there is no such folder ({Path(root).expanduser().absolute()})."]

    def unusable_files(self, configs: Sequence[TranslationConfig]) -> list[Fault]:
        """Files of a user's own corpus whose numbers of lines differ, each pair once."""
        from variations.tasks.translation.data.textfiles import unequal_files

        corpora = dict.fromkeys(
            (c.data.root, (c.data.train, c.data.dev, c.data.test), c.data.source, c.data.target)
            for c in configs
            if c.data.kind == "folder" and c.data.root is not None
        )
        return [
            Fault(("data.root", "data.train", "data.dev", "data.test"), text)
            for root, stems, source, target in corpora
            for text in unequal_files(Path(str(root)).expanduser(), stems, source, target)
        ]

    losses: Sequence[str] = ("loss", "nll")
    units: Sequence[str] = ("pairs", "source_tokens", "target_tokens", "padded_tokens", "flops")
    loss_unit = "target_tokens"
    monitor = "dev/nll"
    shown: Mapping[str, str] = {"dev/ppl": "dev ppl {:.2f}", "dev/bleu": "dev BLEU {:.1f}"}

    def profile(self, config: TranslationConfig, device: str) -> Mapping[str, str]:
        """How attention is computed, and where dropout's masks come from."""
        if device == "cpu":
            return {"attention": "bmm up to 512 x 512, else sdpa", "dropout_masks": "bytes"}
        from variations.models.kernels import varlen

        return {"attention": varlen.described(config, device)}

    def data(self, config: TranslationConfig) -> "TranslationData":
        """The corpus with its sub-words."""
        from variations.tasks.translation.data.module import TranslationData

        return TranslationData(config)

    def experiment(self, config: TranslationConfig, data: Any, device: str) -> "TranslationExperiment":
        """The network under maximum likelihood with label smoothing."""
        from variations.tasks.translation.experiment import TranslationExperiment

        return TranslationExperiment(config, data, device)

    def network(self, config: TranslationConfig, folder: RunFolder) -> Any:
        """The network over the run's own vocabulary."""
        from variations.models import build

        return build(config, subwords_of(config, folder).size)

    def changed_inputs(self, config: TranslationConfig, folder: RunFolder) -> list[str]:
        """Files in `data.root` that are no longer those of the run's data card."""
        from variations.tasks.translation.data.changes import changed_texts

        return list(changed_texts(folder, config.data))

    def totals(self, counted: Mapping[str, float]) -> dict[str, Any]:
        """The part of all slots that holds a token."""
        tokens = counted["source_tokens"] + counted["target_tokens"]
        return {"padding_efficiency": tokens / max(1, counted["padded_tokens"])}

    def samples(self, folder: RunFolder) -> Mapping[str, Samples]:
        """The first translations of each set."""
        from variations.tasks.translation.samples import samples

        return samples(folder)

    def pictures(self, folder: RunFolder, experiment: Any) -> Mapping[str, Path]:
        """Attention of one test sentence, every layer and head."""
        from variations.tasks.translation.samples import attention_pictures

        return attention_pictures(folder, experiment.network, experiment.data.subwords)


def subwords_of(config: TranslationConfig, folder: RunFolder) -> "Subwords":
    """The vocabulary of a stored run. Raises UserError if it is not there."""
    from variations.tasks.translation.data.subwords import Subwords

    path = folder.path / "subwords.model"
    if not path.exists():
        raise UserError(f"{folder.path} has no subwords.model: the run has not begun to train.")
    return Subwords(path, lowercase=config.data.lowercase)


TASK = Translation()
