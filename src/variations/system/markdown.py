"""Text in Markdown."""


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, also in a cell of a pipe table."""
    for sign in "\\|*_":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.replace("<", "&lt;").splitlines())
