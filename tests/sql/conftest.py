"""Stores for the tests of this folder."""

from tests.support.stores import embedded, real_server, server, store

__all__ = ["embedded", "real_server", "server", "store"]
