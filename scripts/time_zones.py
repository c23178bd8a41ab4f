#!/usr/bin/env python3
"""Prints the golden table of the time zone data: local times of every zone as instants.

Uses zoneinfo of Python with the installed package tzdata. `crates/domain/golden/time-zones.txt` is
its output for the data in the program.
"""

import zoneinfo
from datetime import datetime, timezone

import tzdata

LOCAL_TIMES = [datetime(2026, 7, 1, 12), datetime(2026, 12, 1, 14, 30), datetime(2027, 3, 20, 9)]

zoneinfo.reset_tzpath(to=[])
local_times = " ".join(at.strftime("%Y-%m-%dT%H:%M") for at in LOCAL_TIMES)
print(f"# IANA {tzdata.IANA_VERSION}: zone, and the instants of {local_times}")
for name in sorted(zoneinfo.available_timezones()):
    local_times = [at.replace(tzinfo=zoneinfo.ZoneInfo(name)) for at in LOCAL_TIMES]
    print(name, *[at.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%MZ") for at in local_times])
