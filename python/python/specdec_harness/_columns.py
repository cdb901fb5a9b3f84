"""Tables that need no library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    import polars


class Columns(dict[str, Any]):
    """The columns of a table: numpy arrays of one length, by name."""

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(next(iter(self.values()), ()))

    def to_polars(self) -> polars.DataFrame:
        """The table as a `polars.DataFrame`, if polars is installed."""
        import polars

        return polars.DataFrame(dict(self))

    def to_pandas(self) -> pandas.DataFrame:
        """The table as a `pandas.DataFrame`, if pandas is installed."""
        import pandas

        flat = {name: column if column.ndim == 1 else list(column) for name, column in self.items()}
        return pandas.DataFrame(flat)
