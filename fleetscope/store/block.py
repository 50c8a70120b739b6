"""Arrow tables on their way into and out of the database (pure)."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

_NULLABLE: Final[dict[pa.DataType, Any]] = {
    pa.int8(): pd.Int8Dtype(), pa.int16(): pd.Int16Dtype(), pa.int32(): pd.Int32Dtype(), pa.int64(): pd.Int64Dtype(),
    pa.uint8(): pd.UInt8Dtype(), pa.uint16(): pd.UInt16Dtype(), pa.uint32(): pd.UInt32Dtype(),
    pa.uint64(): pd.UInt64Dtype(), pa.bool_(): pd.BooleanDtype(),
}


def one_block(rows: pa.Table) -> pa.Table:
    """``rows`` in one chunk with one dictionary a column and every word in it once.

    The server reads each chunk as a block of its own (a token would then cover only the first), and refuses a
    dictionary that says a word twice.
    """
    joined = rows.unify_dictionaries().combine_chunks()
    for index, field in enumerate(joined.schema):
        if pa.types.is_dictionary(field.type) and joined.num_rows:
            array = joined.column(index).chunk(0)
            unique = pc.unique(array.dictionary)
            if len(unique) < len(array.dictionary):
                joined = joined.set_column(index, field, _recoded(array, unique))
    return joined


def without_nulls(rows: pa.Table) -> pa.Table:
    """``rows`` without the columns that are null in every row: the database fills them with their default, as it does
    for each null. One column stays in any case."""
    filled = [name for name, column in zip(rows.column_names, rows.columns, strict=True)
              if column.null_count < rows.num_rows]
    return rows.select(filled or rows.column_names[:1])


def _recoded(array: pa.DictionaryArray, unique: pa.Array) -> pa.DictionaryArray:
    codes = pc.index_in(array.dictionary, unique).take(array.indices)
    return pa.DictionaryArray.from_arrays(codes.cast(array.type.index_type), unique)


def to_frame(table: pa.Table) -> pd.DataFrame:
    """A pandas frame without loss: columns that may hold nulls get nullable integer types, the others numpy's."""
    columns = {}
    for field, column in zip(table.schema, table.columns, strict=True):
        mapper = _NULLABLE.get if field.nullable else None
        columns[field.name] = column.to_pandas(types_mapper=mapper, maps_as_pydicts="lossy")
    return pd.DataFrame(columns, columns=table.schema.names)
