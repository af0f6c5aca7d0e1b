"""Text of other users on a terminal."""


def visible(text: str) -> str:
    """Return text in which control characters are escapes (``\\x1b``), line breaks too.

    Names, paths and messages of other users may contain sequences that a terminal obeys. Characters that change the
    direction of text, and bytes that are not UTF-8, become escapes as well.
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape", "surrogatepass").decode("ascii")
        for one in text
    )
