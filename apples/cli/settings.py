"""KEY=VALUE options of applications and platforms."""

from collections.abc import Iterable

from apples.errors import ConfigError


def parse_settings(pairs: Iterable[str], flag: str = "--set", example: str = "nx=128") -> dict[str, str]:
    """Return KEY=VALUE pairs as a mapping; raise `ConfigError` naming every pair that is none."""
    wrong = [pair for pair in pairs if "=" not in pair or pair.startswith("=")]
    if wrong:
        raise ConfigError(
            [f"{flag} {pair}: expected KEY=VALUE, for example {flag} {example}" for pair in wrong]
        )
    return {key: value for key, _, value in (pair.partition("=") for pair in pairs)}
