"""Values that must not appear in a shared page: keys, tokens and passwords, recognised by name or by form."""

import re
from typing import Any

HIDDEN = "hidden"
_NAMES = re.compile(
    r"(?:^|[._\-/ ])(?:api[_\-]?key|[a-z_\-]*api[_\-]?key|secret\w*|password|passwd|passphrase|access[_\-]?key\w*|"
    r"private[_\-]?key|auth[_\-]?token|access[_\-]?token|bearer|credentials?|token)$",
    re.IGNORECASE,
)
_COMMIT = re.compile(r"(?:^|\.)commit$")
"""A commit hash looks like an API key of W&B: 40 hexadecimal digits."""
_USER = re.compile(r"(\w+://)[^\s/@]+@")
"""`https://name:password@`: the user part of a URL, which may be a token by itself."""
_SHAPES = (
    re.compile(
        r"(?i)\b((?:[\w\-]*api[_\-]?key|secret|password|passwd|token|authorization)['\"]?\s*[=:]\s*['\"]?)([^\s,;&'\"]+)"
    ),
    re.compile(r"""()(?<!commit )(?<!commit: )(?<!commit": ")\b([0-9a-f]{40})\b"""),
    re.compile(r"()\b((?:wandb_v1_|hf_|sk-|ghp_|gho_|github_pat_|xox[abp]-|AKIA)[A-Za-z0-9_\-]{12,})"),
)


def is_secret(key: str) -> bool:
    """Whether the name of a key marks its value as secret: `logger.api_key`, `password`, `WANDB_API_KEY`."""
    return _NAMES.search(key) is not None


def without_secrets(value: Any, key: str = "") -> Any:
    """A copy of plain data in which secret values are replaced by HIDDEN, also inside longer text."""
    if isinstance(value, dict):
        return {name: without_secrets(item, str(name)) for name, item in value.items()}
    if value is not None and is_secret(key) and not isinstance(value, bool | int | float):
        return HIDDEN
    if isinstance(value, list):
        return [without_secrets(item) for item in value]
    if not isinstance(value, str) or _COMMIT.search(key):
        return value
    return clean(value)


def clean(text: str) -> str:
    """Text with anything that looks like a secret masked: `api_key=…`, known token formats; URLs lose their user."""
    text = _USER.sub(r"\1", text)
    for shape in _SHAPES:
        text = shape.sub(rf"\g<1>{HIDDEN}", text)
    return text
