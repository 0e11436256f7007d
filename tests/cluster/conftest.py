"""What tests of campaigns share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hotlap.cli import main


@pytest.fixture
def cluster(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """A verb of `hotlap cluster`: exit code, standard output and error."""

    def answer(*words: str) -> tuple[int, str, str]:
        code = main(["cluster", *words])
        return code, *capsys.readouterr()

    return answer
