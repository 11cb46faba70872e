"""Plays in Markdown: speakers, their speeches, and what is left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtempo.data.play_parser import roles, speeches


def test_speeches_continue_after_directions_and_blank_lines_and_end_at_headings() -> None:
    play = "# Title\n\n**ANN**  \nOne,  \n\n_Enter BOB_\n\ntwo.\n\n"
    play += "## ACT II\n\nNobody's.\n\n**BOB**\nThree.\n**BOB**\nFour."
    assert speeches(play) == [("ANN", "One,\ntwo."), ("BOB", "Three."), ("BOB", "Four.")]


@pytest.mark.parametrize(
    ("lines", "spoken"),
    [
        ("_Exeunt_\nyes", "yes"),
        ("*Exeunt*\nyes", "yes"),
        ("_Enter ANN and\nBOB_\nyes", "yes"),
        ("_Enter ANN and\n*BOB*\nCARL_\nyes", "yes"),
        ("_\nEnter ANN\n_\nyes", "yes"),
        ("_Enter ANN, whom no mark follows\n\nyes", "yes"),
        ("[Aside]_\nyes", "yes"),
        ("_\\[Aside\\]_ yes", ""),
        ("a _\\[Aside\\]_ b __[Aloud]_ c", "a b c"),
        ("wait\\--no \\[sic\\]", "wait--no [sic]"),
        ("two \t  words", "two words"),
    ],
)
def test_stage_directions_and_marks_are_left_out(lines: str, spoken: str) -> None:
    assert speeches(f"**ANN**\n{lines}") == [("ANN", spoken)]


def test_an_unclosed_direction_ends_before_the_next_speaker() -> None:
    assert speeches("**ANN**\n_Enter\n**BOB**\nHo!") == [("ANN", ""), ("BOB", "Ho!")]


def test_roles_are_distinguished_by_spelling_and_keep_their_order() -> None:
    parsed = roles("play", "**Nurse**\nAy.\n**NURSE**\nNo.\n**Nurse**\nWell.")
    assert [(role.name, role.speeches, role.characters) for role in parsed] == [
        ("Nurse", ("Ay.", "Well."), 8),
        ("NURSE", ("No.",), 3),
    ]


names = st.text("ABC xyz", min_size=1).map(str.strip).filter(bool)
lines = st.text("abc ,.!'-", min_size=1).map(lambda text: " ".join(text.split())).filter(bool)


@given(st.lists(st.tuples(names, st.lists(lines))))
def test_generated_plays_are_parsed_correctly(play: list[tuple[str, list[str]]]) -> None:
    markdown = "\n\n".join(f"**{name}**  \n" + "  \n".join(said) for name, said in play)
    assert speeches(markdown) == [(name, "\n".join(said)) for name, said in play]


@given(st.text("ab*_#[]\\\n "))
def test_any_text_is_parsed(markdown: str) -> None:
    assert all("\n\n" not in text and text == text.strip() for _, text in speeches(markdown))
