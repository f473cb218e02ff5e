"""Translate standard input: `python src/translate.py run=runs/... < input > output`.

Any line is accepted, and there is one answer for each, in order; `nbest=4` gives several with scores, `format=json` one
JSON document a line, `attention=true` the cross-attention of each translation. On a terminal it asks for lines. What
had to be cut is said on standard error.
"""

from variations.commands.cli import command
from variations.commands.translate import TranslateConfig, translate

main = command(
    translate,
    schema=TranslateConfig,
    config_name="translate",
    examples=[
        "python src/translate.py run=runs/single/NAME/seed1 < input.txt > output.txt",
        "python src/translate.py run=runs/single/NAME/seed1 nbest=4 format=json decode.beam=8",
        "python src/translate.py run=RUN attention=true format=json",
        "python src/translate.py run=RUN attention=true out=maps < input.txt > output.txt",
    ],
)

if __name__ == "__main__":
    main()
