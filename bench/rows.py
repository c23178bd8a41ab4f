"""The table of figures."""

import statistics
from dataclasses import dataclass


@dataclass
class Row:
    """A figure of one or more rounds, and its floor: a median of at least or at most this."""

    what: str
    values: list
    least: float = None
    most: float = None
    unit: str = ""

    def cells(self):
        middle = statistics.median(self.values)
        shown = short(middle) + self.unit
        if len(self.values) > 1:
            shown += f" ({short(min(self.values))} to {short(max(self.values))})"
        if self.least is not None:
            return self.what, shown, f"≥ {self.least:g}", "yes" if middle >= self.least else "NO"
        if self.most is not None:
            return self.what, shown, f"≤ {self.most:g}", "yes" if middle <= self.most else "NO"
        return self.what, shown, "", ""


def short(number):
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def table(rows):
    cells = [("figure", "median (range)", "floor", "met"), ("---",) * 4]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells + [row.cells() for row in rows])
