"""Jobs as Python objects: the example of docs/python-api.md, reasons, cancelling and refusals."""

import doctest
from pathlib import Path

import pytest

import apples

PAGE = Path(__file__).parents[3] / "docs" / "python-api.md"


def test_submit_wait_why_and_cancel(manager, cli):
    with pytest.raises(apples.NoDaemon, match="start one with `apples manager --queue`"):
        apples.submit(["true"])
    manager("--procs", 1)
    section = PAGE.read_text().partition("## Submit a job")[2].partition("\n## ")[0]
    found = doctest.DocTestParser().get_doctest(section.replace("```\n", ""), {}, "submit", None, 0)
    assert doctest.DocTestRunner().run(found).failed == 0
    running = apples.submit(["sleep", "60"], output="/dev/null")
    waiting = apples.submit(["true"], output="/dev/null")
    assert "waits for" in waiting.why()
    assert waiting.cancel() == "cancelled"
    assert running.cancel() in ("ending", "cancelled")
    assert running.wait().outcome == "cancelled"
    assert running.cancel() == "over"
    with pytest.raises(apples.ConfigError, match="procs 2: this machine has 1 processors"):
        apples.submit(["true"], procs=2)
    with pytest.raises(apples.UnknownJob, match="there is no job 99"):
        apples.SubmittedJob(99).why()
