//! The format of log lines as JSON.

use std::fmt;

use adapter_http::STEPS;
use serde::{Serializer as _, ser::SerializeMap as _};
use tracing::{Event, Subscriber};
use tracing_serde::{AsSerde as _, SerdeMapVisitor};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormattedFields,
        format::{JsonFields, Writer},
        time::{FormatTime as _, SystemTime},
    },
    registry::LookupSpan,
};

/// Writes an event as one JSON object: its fields beside `timestamp`, `level` and `target`, and
/// its span as the member `span`. `tracing-subscriber` has the same format, but parses the fields
/// of the span again for each line.
pub(crate) struct JsonLine;

impl<S> FormatEvent<S, JsonFields> for JsonLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut timestamp = String::with_capacity(32);
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let mut line = Vec::with_capacity(512);
        let metadata = event.metadata();
        let write = |line: &mut Vec<u8>| -> serde_json::Result<()> {
            let mut serializer = serde_json::Serializer::new(line);
            let mut members = serializer.serialize_map(None)?;
            members.serialize_entry("timestamp", &timestamp)?;
            members.serialize_entry("level", &metadata.level().as_serde())?;
            let mut visitor = SerdeMapVisitor::new(members);
            event.record(&mut visitor);
            let mut members = visitor.take_serializer()?;
            members.serialize_entry("target", metadata.target())?;
            members.end()
        };
        write(&mut line).map_err(|_| fmt::Error)?;
        let mut spans = context.lookup_current().into_iter().flat_map(|span| span.scope());
        // The steps of a request are for its trace.
        if let Some(span) = spans.find(|span| !span.metadata().target().starts_with(STEPS)) {
            let extensions = span.extensions();
            let fields = extensions.get::<FormattedFields<JsonFields>>();
            let fields = fields.map_or("{}", |fields| fields.fields.as_str());
            let comma = if fields == "{}" { "" } else { "," };
            // Both texts are objects. The members go before the brace at their ends.
            line.pop();
            let fields = fields.strip_suffix('}').unwrap_or(fields);
            for text in [",\"span\":", fields, comma, "\"name\":\"", span.name(), "\"}}"] {
                line.extend_from_slice(text.as_bytes());
            }
        }
        line.push(b'\n');
        writer.write_str(std::str::from_utf8(&line).map_err(|_| fmt::Error)?)
    }
}
