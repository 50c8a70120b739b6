"""Fixtures of this folder."""

from tests.support.stores import embedded

__all__ = ["embedded"]
