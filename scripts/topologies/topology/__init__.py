"""The base of the topology scripts. README.md beside this package shows how to write one."""

from .audit import Audit, mail_drop
from .figures import Figures
from .load import Load, Order
from .processes import Machine, Process, accepts, wait_until
from .run import parse_positive, run, venv
from .service import Service

__all__ = [
    "Audit", "Figures", "Load", "Machine", "Order", "Process", "Service", "accepts", "mail_drop",
    "parse_positive", "run", "venv", "wait_until",
]
