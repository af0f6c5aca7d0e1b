"""What is shipped: the vendored library as its makers published it, and files that a strict content policy allows."""

import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import nws

WEB = Path(nws.__file__).resolve().parent / "web"
STATIC = WEB / "static"
VENDORED = STATIC / "vendor" / "uplot"
MODULES = sorted(p for p in STATIC.rglob("*.js") if "vendor" not in p.parts)
SHEETS = sorted((STATIC / "style").glob("*.css"))
MOST_LINES = 400


def name_of(path):
    return path.relative_to(WEB).as_posix()


def test_vendored_library_is_what_its_version_file_says():
    told = json.loads((VENDORED / "VERSION.json").read_text(encoding="utf-8"))
    found = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in VENDORED.iterdir()}
    found.pop("VERSION.json")
    assert found == told["sha256"]
    assert told["version"] in (VENDORED / "uPlot.iife.min.js").read_text(encoding="utf-8")
    assert "MIT License" in (VENDORED / "LICENSE").read_text(encoding="utf-8")


class _Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


def test_page_has_no_inline_code_or_style_and_loads_its_own_files_only():
    parser = _Tags()
    text = (WEB / "index.html").read_text(encoding="utf-8")
    parser.feed(text)
    assert re.findall(r"<script[^>]*>([^<]+)</script>|<style", text) == []
    for tag, attributes in parser.tags:
        assert not any(name == "style" or name.startswith("on") for name in attributes), (tag, attributes)
        for name in ("src", "href"):
            target = attributes.get(name, "#")
            assert target.startswith("#") or (WEB / target).is_file(), target


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_module_says_what_it_decides_and_puts_in_text_only(path):
    text = path.read_text(encoding="utf-8")
    assert text.startswith("/* ")
    assert len(text.splitlines()) <= MOST_LINES
    for forbidden in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "cssText",
    ):
        assert forbidden not in text
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)


@pytest.mark.parametrize("path", SHEETS, ids=name_of)
def test_style_sheet_loads_nothing(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"url\(|@import", text)
    # colours stand in one file, where the test of contrasts finds them; shadows are no ground for text
    if path.name != "colours.css":
        assert re.findall(r"#[0-9a-f]{3,8}\b", text) == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_import_leads_to_a_file(path):
    for target in re.findall(r'from "([^"]+)"', path.read_text(encoding="utf-8")):
        assert (path.parent / target).is_file(), target
