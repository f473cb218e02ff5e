"""Multi30k, task 1 (Elliott et al. 2016): image captions in English, German and French, from its public repository."""

from collections.abc import Mapping
from pathlib import Path

from variations.data.download import fetch
from variations.data.transfer import Remote
from variations.system.errors import DataError

LANGUAGES = ("en", "de", "fr")
URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/"
STEMS = ("train", "val", "test_2016_flickr", "test_2017_flickr", "test_2017_mscoco", "test_2018_flickr")
TESTS = STEMS[2:]
FILES = {  # bytes and SHA-256 of <name>.gz
    "test_2016_flickr.de": (22890, "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8"),
    "test_2016_flickr.en": (21077, "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9"),
    "test_2016_flickr.fr": (22310, "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90"),
    "test_2017_flickr.de": (21471, "a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee"),
    "test_2017_flickr.en": (19138, "76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074"),
    "test_2017_flickr.fr": (20434, "3ba671ceb2299f3304ffafefea7a833d08632fbaf0ba18546f8a2ec2391af496"),
    "test_2017_mscoco.de": (10230, "799e4854c25d601cb6cb6be29eabe5667734c61ace2f495e03e429031a0bc338"),
    "test_2017_mscoco.en": (8844, "aab300bfb4427697987e02cd0aacd44bfe8aa50456231b6474c08038bbed2b58"),
    "test_2017_mscoco.fr": (9751, "754f3072ba9f124569ba5258b32730fc1d214bbf8e0c6dfb2b74401676220db0"),
    "test_2018_flickr.de": (26461, "ddd0130c7d97482dc5197a02141dae8dd79f20f03586c480d675c09a32daf608"),
    "test_2018_flickr.en": (23514, "ef4f4844037d4c5dea75c9a8ed5fd78905967a26f67c255e230cc9780032654d"),
    "test_2018_flickr.fr": (25321, "fb2b83fcceb937a4f7e3e93c1c51c22aba92f1e342391e6b5ba392b16a920501"),
    "train.de": (637044, "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6"),
    "train.en": (568929, "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f"),
    "train.fr": (604242, "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c"),
    "val.de": (24681, "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a"),
    "val.en": (21650, "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28"),
    "val.fr": (23001, "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9"),
}
TEXTS = {  # SHA-256 of the text in each of them
    "test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    "test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    "test_2016_flickr.fr": "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
    "test_2017_flickr.de": "c3078bc3b36808bf9d20eb2347ed6137016179ef59ec0d2b9b8ecc3fb2880081",
    "test_2017_flickr.en": "ce1450ddc5ab0834502579d77a170849952e15a2938b34cc503bdc25ebb4fb98",
    "test_2017_flickr.fr": "6f3764e31dac41e9455e612958bcfd4e877c5e15cd66df2c2b2be6d9bd83e5b6",
    "test_2017_mscoco.de": "58277df3c75f92f7145a11b910b553d1cf82c439249d4dc237c899609eafac22",
    "test_2017_mscoco.en": "43051fdfa86fd5395182e718a94ca67b1b227b9f7c79596ff0f6b813216981d2",
    "test_2017_mscoco.fr": "39cde3f43f32b0a6bf29ce4917a46329ff32e53070c2fac87506695a740ae0a0",
    "test_2018_flickr.de": "39fcc8b3331d76fb42d648d019c6898b0d5e58baac87bc2a0bb93f44ec8db207",
    "test_2018_flickr.en": "4e585c2dd525911a6ea7730e9d0b516239af3f1b1ffae6a2130223cfb639f25e",
    "test_2018_flickr.fr": "234b4a887da0da4801a3e2c6f21336231ff7dd46daeb80cfa1b551c8bbb78239",
    "train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    "train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    "train.fr": "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d",
    "val.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    "val.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    "val.fr": "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc",
}


def remote(stem: str, language: str) -> Remote:
    """Address, size and checksum of one file."""
    size, sha256 = FILES[f"{stem}.{language}"]
    return Remote(f"{URL}{stem}.{language}.gz", sha256, size)


def prepare(folder: Path, stems: list[str], languages: tuple[str, str], *, progress: bool = True) -> list[Path]:
    """Make sure that the files of `stems` are in `folder`, downloading those that are missing.

    Raises:
        DataError: an unknown language or stem.
        UserError: see `download.fetch`; without a network, the message lists the files to save, and the folder.
    """
    if unknown := [language for language in languages if language not in LANGUAGES]:
        raise DataError(f"Multi30k has no language {unknown[0]!r}: choose data.source and data.target from en, de, fr.")
    if unknown := [stem for stem in stems if stem not in STEMS]:
        raise DataError(f"Multi30k has no file {unknown[0]!r}: choose from {', '.join(STEMS)}.")
    names = [f"{stem}.{language}.gz" for stem in stems for language in languages]
    manual = (
        f"Without a network: save {', '.join(names)} from {URL} in {folder}, "
        "or name a folder that has them (plain or .gz) with data.root=DIR."
    )
    paths = []
    for stem in stems:
        for language in languages:
            file = remote(stem, language)
            path = folder / f"{stem}.{language}.gz"
            paths.append(fetch(file.url, path, file.sha256, file.size, manual=manual, progress=progress))
    return paths


def others(texts: Mapping[str, str]) -> list[str]:
    """Names of texts that are not Multi30k's: other contents, or a file of another name.

    Args:
        texts: SHA-256 of each text by its file's name without .gz.
    """
    return sorted(name for name, sha256 in texts.items() if TEXTS.get(name) != sha256)
