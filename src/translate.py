"""Translate standard input: `python src/translate.py run=runs/... < input > output`.

Any line is accepted, and translations are written in order; `nbest=4` gives several with scores, `format=json` one
JSON document per line, `attention=true` the cross-attention of each translation. On a terminal it asks for lines. What
was cut is reported on standard error.
"""

from variations.commands.console import start

if __name__ == "__main__":
    start("translate")
