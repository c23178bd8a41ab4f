package org.openapitools.jackson.nullable;

/** Reads and writes the values as they are. */
public final class JsonNullableModule extends com.fasterxml.jackson.databind.module.SimpleModule {}
