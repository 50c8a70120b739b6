"""Small /proc and /sys trees for tests."""

from __future__ import annotations

from pathlib import Path


def put(root: Path, files: dict[str, str]) -> None:
    """Write each text below ``root``."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
