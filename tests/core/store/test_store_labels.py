"""Labels are checked before anything is measured."""

from __future__ import annotations

import pytest

from hotlap.core.errors import InputError
from hotlap.core.store import labels


def test_numbers_become_text() -> None:
    assert labels.check({"a": 1, "cluster": " A "}) == {"a": "1", "cluster": "A"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("a=b", "names and values"), ({"": "x"}, "no name"), ({"a=b": "x"}, "no name"), ({"device": "3"}, "my_device"),
        ({"a": "x,y"}, "comma"), ({"a": ["x"]}, "text or a number"), ({1: "x"}, "no name"),
    ],
)
def test_what_no_selector_could_name_is_refused(given: object, said: str) -> None:
    with pytest.raises(InputError, match=said):
        labels.check(given)  # type: ignore[arg-type]
