"""Unpacks the archive of the standard input into a folder."""

import sys
from pathlib import Path

from stream_unzip import stream_unzip

blocks = iter(lambda: sys.stdin.buffer.read(65536), b"")
for name, _, chunks in stream_unzip(blocks):
    path = Path(sys.argv[1], name.decode())
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(chunks))
