"""Scripts that the kernel does not start, although they are there."""

import pytest

from nws.base import scripts
from tests.transcripts import recorded

THERE = (
    b"#!/bin/sh\n",
    b"#! /bin/sh -e\n",
    b"#!/usr/bin/env python3\n",
    b"\x7fELF",
    b"MZ\x90\n",
    b"",
    b"#!\n",
)


@pytest.mark.parametrize("text", THERE)
def test_fault_of_a_file_that_may_run_is_none(tmp_path, text):
    (tmp_path / "job").write_bytes(text)
    assert scripts.fault(str(tmp_path / "job")) is None
    assert scripts.fault(str(tmp_path / "missing")) is None


@recorded("nws/base/script_faults.txt", "text")
def test_fault_names_the_interpreter_and_the_remedy(tmp_path, answered, text):
    (tmp_path / "job").write_bytes(text)
    answered(scripts.fault(str(tmp_path / "job")).replace(str(tmp_path), "DIR"))
