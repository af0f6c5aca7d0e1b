"""The package as one file for other hosts, made from this installation: built from a checkout, or packed again."""

import base64
import hashlib
import io
import json
import sys
import zipfile
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

from apples_deploy.records import Package
from nws.base.command import DISTRIBUTION
from nws.base.errors import UsageError
from nws.base.program import ProgramFailed, output_of
from nws.base.scratch import ScratchDirectory

_BUILD_S = 300.0
#: Files that belong to an installation and not to the package.
_INSTALLED_ONLY = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")


def package(
    wheel: Path | None, *, wheelhouse: str | None, index: str | None, python: str
) -> tuple[Package, bytes]:
    """Return the package that hosts install, and its wheel; raises `UsageError`.

    Args:
        wheel: the file, None for this installation.
        wheelhouse: directory or URL with the dependencies, as hosts see it.
        index: URL of the package index, None for that of pip's settings.
        python: interpreter of the hosts.
    """
    name, content = this_package() if wheel is None else (wheel.name, _read(wheel))
    arguments: tuple[str, ...] = ()
    variables: dict[str, str] = {}
    if wheelhouse is not None:
        arguments += ("--no-index",)
        # a directory may have spaces, which separate addresses in the variables
        if "://" in wheelhouse:
            variables |= dict.fromkeys(("PIP_FIND_LINKS", "UV_FIND_LINKS"), wheelhouse)
        else:
            arguments += ("--find-links", wheelhouse)
    if index is not None:
        variables |= dict.fromkeys(("PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX"), index)
    digest = hashlib.sha256(content)
    digest.update("\0".join((*arguments, *variables.values(), python)).encode())
    return Package(digest=digest.hexdigest(), wheel=name, arguments=arguments, variables=variables), content


def this_package() -> tuple[str, bytes]:
    """Return name and content of a wheel of this installation; the same files give the same bytes."""
    found = metadata.distribution(DISTRIBUTION)
    about = json.loads(found.read_text("direct_url.json") or "{}")
    if about.get("dir_info", {}).get("editable"):
        return _built(Path(unquote(urlsplit(about["url"]).path)))
    return f"{DISTRIBUTION.replace('-', '_')}-{found.version}-py3-none-any.whl", packed(found)


def _built(source: Path) -> tuple[str, bytes]:
    with ScratchDirectory("apples-wheel-") as directory:
        command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
        try:
            output_of([*command, "-w", str(directory), str(source)], limit_s=_BUILD_S)
        except ProgramFailed as failure:
            raise UsageError(
                f"{source}: no wheel can be built from this checkout: {failure.reason}: {failure.last_line}; install "
                "its extra dev, or name a wheel with --wheel"
            ) from None
        (wheel,) = directory.glob("*.whl")
        return wheel.name, wheel.read_bytes()


def packed(found: metadata.Distribution) -> bytes:
    """Return a wheel with the files of an installed distribution."""
    buffer, record = io.BytesIO(), []
    entries = {str(file): Path(str(file.locate())) for file in found.files or ()}
    (folder,) = {name.partition("/")[0] for name in entries if name.endswith(".dist-info/METADATA")}
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted(entries.items()):
            # programs beside the interpreter are made anew from the entry points
            if name.startswith("..") or name.endswith(".pyc") or path.name in _INSTALLED_ONLY:
                continue
            content = path.read_bytes()
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}\n")
        record.append(f"{folder}/RECORD,,\n")
        archive.writestr(zipfile.ZipInfo(f"{folder}/RECORD"), "".join(record), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _read(wheel: Path) -> bytes:
    try:
        return wheel.read_bytes()
    except OSError as error:
        raise UsageError(f"{wheel}: the wheel cannot be read: {error.strerror}") from error
