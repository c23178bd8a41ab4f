"""The figures of a run, with their limits."""

from .audit import Audit
from .load import Load


class Figures:
    """A table of figures. A figure beyond its limit makes the script fail."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, str, str]] = []
        self._misses: list[str] = []

    def add(self, what: str, value: object, unit: str = "", at_most: float | None = None,
            at_least: float | None = None) -> None:
        shown = f"{value:.1f}" if isinstance(value, float) else str(value)
        limit = ""
        if at_most is not None:
            limit = f"at most {at_most:g}"
            self._miss_unless(value <= at_most, f"{what}: {shown}, {limit}")
        if at_least is not None:
            limit = f"at least {at_least:g}"
            self._miss_unless(value >= at_least, f"{what}: {shown}, {limit}")
        self._rows.append((what, f"{shown} {unit}".strip(), limit))

    def check(self, what: str, holds: bool, detail: str = "") -> None:
        """Adds a statement that must be true."""
        self._rows.append((what, "yes" if holds else "no", "yes"))
        self._miss_unless(holds, f"{what}: {detail or 'no'}")

    def add_load(self, load: Load) -> None:
        """Adds what the clients saw. Faults of the clients' view fail the run."""
        self.add("orders acknowledged", len(load.acknowledged), at_least=1)
        failures = ", ".join(f"{count} × {what}" for what, count in sorted(load.failures.items()))
        self.add("attempts that the clients repeated", failures or "none")
        self.add("wrong answers to clients", len(load.faults), at_most=0)
        self._misses += load.faults[:10]

    def add_audit(self, audit: Audit) -> None:
        self.add("orders stored", audit.orders)
        self.add("documents downloaded and compared", audit.documents)
        if audit.mails:
            self.add("mails; of them repeated", f"{audit.mails}; {audit.repeated_mails}")
        for kind in ("lost", "twice", "unexpected", "incomplete", "without_mail"):
            self.add(f"orders {kind.replace('_', ' ')}", len(getattr(audit, kind)), at_most=0)
        self._misses += audit.problems()

    def _miss_unless(self, holds: bool, what: str) -> None:
        if not holds:
            self._misses.append(what)

    def print(self) -> bool:
        """Prints the table, and returns whether every limit holds."""
        print("\n| figure | value | limit |\n|---|---|---|")
        for row in self._rows:
            print("| " + " | ".join(row) + " |")
        for miss in self._misses:
            print(f"MISSED: {miss}")
        return not self._misses
