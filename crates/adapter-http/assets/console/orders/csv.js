// Orders as a table for a spreadsheet.

const COLUMNS = [
  ["Order number", (it) => it.order_id],
  ["File number", (it) => it.file_number],
  ["Status", (it) => it.order_status],
  ["Signer", (it) => it.signer_name],
  ["Signing date", (it) => it.signing_date],
  ["From", (it) => it.appointment.start_time],
  ["Until", (it) => it.appointment.end_time],
  ["Time zone", (it) => it.appointment.time_zone_id],
  ["From (UTC)", (it) => it.appointment.starts_at],
  ["City", (it) => it.signing_city],
  ["State", (it) => it.signing_state],
  ["Property", (it) => it.property_address],
  ["Client", (it) => it.client_name],
  ["Signing service", (it) => it.signing_service_name],
  ["Signing service number", (it) => it.signing_service_id],
  ["Notary", (it) => it.notary?.name],
  ["Notary number", (it) => it.notary_id],
  ["Documents", (it) => it.documents_uploaded],
  ["Signed documents", (it) => it.signed_documents_uploaded],
  ["Created (UTC)", (it) => it.created_at],
  ["Changed (UTC)", (it) => it.updated_at],
];

// Some spreadsheets end a cell at a semicolon or a tab, some within quotes, too. Those of East Asia take
// full-width characters for those of a formula. The same rule is in output.rs of the commands.
const FORMULA = /(^|[,;\t\r\n"])( *)(?=[=+\-@＝＋－＠])/g;

/** Returns a text in which an apostrophe stands before what a spreadsheet would take for a formula. */
const defused = (text) => text.replace(/^(?=[\t\r])/, "'").replace(FORMULA, "$1$2'");

/** Returns a cell. */
function cell(value) {
  const safe = typeof value === "string" ? defused(value) : String(value ?? "");
  return /[",;\t\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Returns orders as CSV (RFC 4180), which spreadsheets read as UTF-8. */
export function csvOf(orders) {
  const rows = [COLUMNS.map(([head]) => head), ...orders.map((it) => COLUMNS.map(([, of]) => of(it)))];
  const text = rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
  return new Blob(["\ufeff", text], { type: "text/csv" });
}
