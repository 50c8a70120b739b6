"""What an Arrow IPC stream is made of, looked at before anything in it is decoded.

Arrow may compress every buffer inside a record batch and states the sizes only there: 200 bytes inside our frame can
ask for gigabytes, and pyarrow offers no limit. So compressed bodies are refused by their metadata. The layout of the
metadata is Apache Arrow's Message.fbs, read with the few flatbuffer rules it needs; pyarrow has verified the offsets.
"""

from __future__ import annotations

import struct
from typing import Final

import pyarrow as pa

MAX_DICTIONARIES: Final = 256

_HEADER_TYPE: Final = 1  # fields of table Message
_HEADER: Final = 2
_DICTIONARY_DATA: Final = 1  # field of table DictionaryBatch
_COMPRESSION: Final = 3  # field of table RecordBatch
_DICTIONARY_BATCH: Final = 2  # members of union MessageHeader
_RECORD_BATCH: Final = 3


def check_stream(content: pa.Buffer) -> None:
    """Raise ValueError unless ``content`` is a schema, dictionaries and at most one record batch, none compressed.

    Raises pyarrow's exceptions too, where the messages themselves are malformed.
    """
    dictionaries = batches = 0
    for message in pa.ipc.MessageReader.open_stream(content):
        if message.type == "schema":
            continue
        metadata = memoryview(message.metadata)
        try:
            compressed = _is_compressed(metadata)
        except (struct.error, IndexError) as error:
            raise ValueError("the metadata of a message is malformed") from error
        if compressed:
            raise ValueError("a body is compressed inside the frame")
        dictionaries += message.type == "dictionary"
        batches += message.type == "record batch"
        if batches > 1:
            raise ValueError("more than one record batch")
        if dictionaries > MAX_DICTIONARIES:
            raise ValueError(f"more than {MAX_DICTIONARIES} dictionary batches")


def _is_compressed(metadata: memoryview) -> bool:
    message = _follow(metadata, 0)
    at = _field(metadata, message, _HEADER_TYPE)
    kind = metadata[at] if at else 0
    at = _field(metadata, message, _HEADER)
    if kind not in (_DICTIONARY_BATCH, _RECORD_BATCH) or not at:
        raise ValueError(f"a message of kind {kind}")
    batch = _follow(metadata, at)
    if kind == _DICTIONARY_BATCH:
        at = _field(metadata, batch, _DICTIONARY_DATA)
        if not at:
            raise ValueError("a dictionary batch without data")
        batch = _follow(metadata, at)
    return _field(metadata, batch, _COMPRESSION) != 0


def _follow(data: memoryview, at: int) -> int:
    """Where the offset at ``at`` points to."""
    return at + int(struct.unpack_from("<I", data, at)[0])


def _field(data: memoryview, table: int, index: int) -> int:
    """Position of a table's field, 0 where it is absent: the table begins with the distance back to its vtable."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    if vtable < 0:
        raise IndexError(vtable)
    size = struct.unpack_from("<H", data, vtable)[0]
    entry = 4 + 2 * index
    if entry + 2 > size:
        return 0
    offset = int(struct.unpack_from("<H", data, vtable + entry)[0])
    return table + offset if offset else 0
