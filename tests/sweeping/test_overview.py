"""What a sweep shows of a row that is still running."""

from collections.abc import Callable
from io import StringIO

from rich.console import Console

from variations.configuration.compose import to_dict
from variations.store.ledger import RunFolder
from variations.sweeping.outcomes import Outcome
from variations.sweeping.overview import Overview


def test_a_running_row_shows_its_latest_validation_and_the_time_left(rows: Callable[..., list[Outcome]]) -> None:
    outcomes = rows("a", "b", changes=["trainer.max_steps=1000"])
    folder = RunFolder(outcomes[0].folder.path).create(to_dict(outcomes[0].job.config))
    for step, bleu in ((100, 12.34), (200, 41.23)):
        folder.append_metrics({"step": step, "dev/nll": 1.0, "dev/ppl": 2.72, "dev/bleu": bleu})
    folder.append_metrics({"step": 250, "train/nll": 0.5})
    with folder.metrics.open("a", encoding="utf-8") as file:
        file.write('{"step": 275, "dev/n')  # being written
    outcomes[0].state = "submitted"
    written = StringIO()
    show = Overview(Console(file=written, force_terminal=True, width=120, height=30))
    for now, step in ((0.0, 150), (10.0, 250)):
        folder.set_status("running", step=step)
        show.pace.look(outcomes, now)
    assert outcomes[0].so_far() == "dev BLEU 41.2"
    assert outcomes[1].so_far() == ""
    assert show.pace.words(outcomes[0]) == "step 250/1000, dev BLEU 41.2"
    assert show.pace.words(outcomes[1]) == "pending"
    show.console.print(show.picture(outcomes))
    (line,) = [line for line in written.getvalue().splitlines() if "running" in line and "250/1000" in line]
    assert "dev BLEU 41.2" in line
