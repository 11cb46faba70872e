"""The example on the page on `fedtempo advise` belongs to the command above it; running it takes minutes."""

from __future__ import annotations

import re
from pathlib import Path

import typer.main

from fedtempo.cli import app

PAGE = (Path(__file__).parents[2] / "docs" / "advise.md").read_text(encoding="utf-8")
COMMAND, OUTPUT = re.search(r"```bash\nfedtempo (advise .+?)\n```.*?```text\n(.+?)```", PAGE, re.DOTALL).groups()  # type: ignore[union-attr]


def rows(title: str) -> list[str]:
    """Return the first cell of each row of the table under this title."""
    table = OUTPUT.split(title, 1)[1].split("─\n", 1)[1].split("\n\n", 1)[0]
    return [line.split()[0] for line in table.splitlines()]


def test_the_command_exists_and_its_output_tells_its_strategies_and_budget() -> None:
    words = COMMAND.split()
    options = dict(zip(words[2::2], words[3::2], strict=True))
    assert set(options) == {"--strategies", "--budget"}
    parameters = typer.main.get_command(app.app).commands["advise"].params  # type: ignore[attr-defined]
    assert set(options) <= {name for parameter in parameters for name in parameter.opts}
    strategies = options["--strategies"].split(",")
    assert len(strategies) > 3
    budget = options["--budget"]
    assert f"From {budget} short trainings (--budget {budget}); {len(strategies)} strategies," in OUTPUT
    for title in ("Trainings of ", "Where the server's estimates are wrong", "Near rows of the league"):
        assert sorted(rows(title)) == sorted(strategies), title


def test_the_headline_and_the_configuration_name_the_first_of_the_table() -> None:
    first = rows("Trainings of ")[0]
    assert OUTPUT.startswith(f"{first}: reaches ")
    assert f"[compare.{first}]\n" in OUTPUT


def test_the_output_has_the_sentence_on_the_league_that_decides_nothing() -> None:
    sentence = " ".join(OUTPUT.split("Trainings of ", 1)[0].split())
    assert "In the league's row" in sentence
    assert sentence.endswith("The ranking does not count this.")
