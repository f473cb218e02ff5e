"""Patterns for the code blocks of the documents."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACEHOLDER = re.compile(r"(?:^|=)[A-Z]{3,}$|\.\.\.|…|[<>]")  # text that the reader replaces
FENCE = re.compile(r"^```\w*\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
