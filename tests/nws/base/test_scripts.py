"""Scripts that the kernel does not start, although they are there."""

import pytest

from nws.base import scripts

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


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"#!/bin/bash\r\n", r"'/bin/bash\\r', which is not there.*Windows line ends \(dos2unix"),
        (b"# a job\necho\n", "names no interpreter; begin it with #!/bin/sh"),
        (b"#! /usr/bin/env python3\r\n", r"the interpreter 'python3\\r'.*dos2unix"),
        (b"#!/usr/bin/env -S perl -w\r\n", r"dos2unix"),
        (b"#!/no/such/sh\n", r"the interpreter '/no/such/sh', which is not there$"),
        (b"\xef\xbb\xbf#!/bin/sh\n", "begins with a byte order mark"),
    ],
)
def test_fault_names_the_interpreter_and_the_remedy(tmp_path, text, why):
    (tmp_path / "job").write_bytes(text)
    with pytest.raises(ValueError, match=why):
        raise ValueError(scripts.fault(str(tmp_path / "job")))
