"""Lines of source code are counted by kind."""

import source_size

SOURCE = '''"""Of a module."""

# A comment.
A = "not # a comment"  # code
"""Of a constant,
in two lines."""


def text() -> str:
    """Of a function."""
    return """

    # a string
    """
'''


def test_each_line_is_counted_once() -> None:
    # in the string of the last statement, a blank line counts as blank and a line with # as a comment
    assert source_size.kinds(SOURCE) == {"code": 4, "docstring": 4, "comment": 2, "blank": 4}
    assert source_size.kinds(SOURCE).total() == len(SOURCE.splitlines())
