-- CRC-32 of the bytes, which ZIP archives have before each document. NULL: version 0.1.0 stored the document,
-- and no archive with it was downloaded since.
ALTER TABLE documents ADD COLUMN crc32 INTEGER;
