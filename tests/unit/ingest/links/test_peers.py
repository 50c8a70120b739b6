"""Lists of peers and keys: what is refused, and with which words."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from fleetscope.errors import UsageError
from ingest.links.peers import MAX_PEERS, parse_peers, read_key


def test_both_families_are_read_and_written() -> None:
    four, six = parse_peers("b=10.0.0.2:7100, c=[fd00::3]:7101,", "a")
    assert (four.host, four.family, four.address, four.text) == ("b", socket.AF_INET, ("10.0.0.2", 7100),
                                                                 "10.0.0.2:7100")
    assert (six.host, six.family, six.address, six.text) == ("c", socket.AF_INET6, ("fd00::3", 7101), "[fd00::3]:7101")
    assert parse_peers("", "a") == ()


@pytest.mark.parametrize(("text", "words"), [
    ("b", "'b' is not host=address:port"), ("b=10.0.0.2", "not host=address:port"), ("b=:1", "not host=address:port"),
    ("b=10.0.0.2:0", "not host=address:port"), ("b=10.0.0.2:65536", "not host=address:port"),
    ("b=fd00::3:7100", "IPv6 addresses in brackets"), ("a=10.0.0.2:7100", "is this host itself"),
    ("b=10.0.0.2:1,b=10.0.0.3:1", "'b' is named twice"), ("b=no..name:7100", "cannot be resolved"),
    (",".join(f"h{i}=10.0.0.2:1" for i in range(MAX_PEERS + 1)), "at most 64")])
def test_what_is_no_list_of_peers_is_refused_by_name(text: str, words: str) -> None:
    with pytest.raises(UsageError, match="--peers: ") as caught:
        parse_peers(text, "a")
    assert words in str(caught.value)


def test_the_key_comes_from_the_file_or_else_the_variable(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("0123456789abcdef\n")
    assert read_key(path, {"FLEETSCOPE_PROBE_KEY": "x" * 20}) == b"0123456789abcdef"
    assert read_key(None, {"FLEETSCOPE_PROBE_KEY": "x" * 20}) == b"x" * 20


def test_a_missing_or_short_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give --probe-key-file or FLEETSCOPE_PROBE_KEY"):
        read_key(None, {})
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_key(tmp_path / "none", {})
    (tmp_path / "short").write_text("secret")
    with pytest.raises(UsageError, match="the key has 6 bytes, at least 16"):
        read_key(tmp_path / "short", {})
