"""Measure Table 1 of Vaswani et al. 2017 on this machine: `python src/complexity.py --help`."""

from variations.commands.cli import command
from variations.commands.complexity import ComplexityConfig, complexity

main = command(
    complexity,
    schema=ComplexityConfig,
    config_name="complexity",
    examples=[
        "python src/complexity.py                                        on the terminal, in two minutes at most",
        "python src/complexity.py plot=complexity.svg format=json",
        "python src/complexity.py format=markdown out=docs/results/complexity.md plot=docs/results/complexity.svg",
        "python src/complexity.py layers=[self_attention,restricted] n=[512,1024,2048] d=[64,128,256]",
    ],
)

if __name__ == "__main__":
    main()
