// Orders as a table for a spreadsheet.

import { addressLine } from "../shared/address.js";
import { request, session } from "../shared/api.js";
import { member } from "../shared/fields.js";
import { role } from "../shared/words.js";
import { patiently } from "./pages.js";

const DETAILS = "/signingDetailsFormData";
const CONTACTS = "/signingContactsFormData";
const detail = (name) => (it) => member(it.details, `${DETAILS}/${name}`);

const propertyOf = ({ details: { signingDetailsFormData: it } }) => addressLine(it.propertyAddress, it.city, it.state, it.zipcode);

function placeOf(order) {
  const it = order.details.signingDetailsFormData;
  if (it.isPropertyAddressSame !== false) return propertyOf(order);
  return addressLine(it.signingAddress ?? it.propertyAddress, it.signingCity, it.signingState, it.signingZipcode);
}

/** Returns a phone number of the US as people there write it, which no spreadsheet takes for a number. */
function phoneOf(text) {
  const [, area, exchange, line] = /^\s*(?:\+?1[\s.-]*)?\(?(\d{3})\)?[\s.-]*(\d{3})[\s.-]*(\d{4})\s*$/.exec(text ?? "") ?? [];
  return line ? `(${area}) ${exchange}-${line}` : text;
}

/** Returns an instant as spreadsheets read it. */
const instantOf = (iso) => iso?.slice(0, 19).replace("T", " ");

/** Returns whether the user sees what a signing costs: not with a key that only reads. */
const seesFees = () => session.may("orders:create") || session.may("orders:update");

/** The columns: head, value, and whether it is a text that stays as it is. */
const columns = () => [
  ["Order number", (it) => it.order_id, true],
  ["File number", (it) => it.file_number, true],
  ["Status", (it) => it.order_status, true],
  ["Type of signing", detail("signingType"), true],
  ["Signing date", (it) => it.signing_date],
  ["From", (it) => it.appointment.start_time],
  ["Until", (it) => it.appointment.end_time],
  ["Time zone", (it) => it.appointment.time_zone_id],
  ["From (UTC)", (it) => instantOf(it.appointment.starts_at)],
  ["Signer", (it) => it.signer_name, true],
  ["Signer phone", (it) => phoneOf(detail("signerPhone")(it)), true],
  ["Signer e-mail", detail("signerEmail")],
  ["Co-signer", detail("coSignerName"), true],
  ["Co-signer phone", (it) => phoneOf(detail("coSignerPhone")(it)), true],
  ["Signing address", placeOf, true],
  ["Signing city", (it) => it.signing_city, true],
  ["Signing state", (it) => it.signing_state, true],
  ["Property address", propertyOf, true],
  ["Client", (it) => it.client_name, true],
  ["Client contact", (it) => member(it.details, `${CONTACTS}/orderContactEmail`)],
  ["Signing service", (it) => it.signing_service_name, true],
  ["Signing service number", (it) => it.signing_service_id, true],
  ["Notary", (it) => it.notary?.name, true],
  ["Notary phone", (it) => phoneOf(it.notary?.phone), true],
  ["Notary e-mail", (it) => it.notary?.email],
  ["Notary number", (it) => it.notary_id, true],
  ["Scanbacks", (it) => (it.scanbacks_required || detail("scanbacksRequired")(it) ? "yes" : "no")],
  ["Documents", (it) => it.documents_uploaded],
  ["Signed documents", (it) => it.signed_documents_uploaded],
  ...(seesFees() ? [["Invoice amount", (it) => it.invoice_fee], ["Pay of the notary", (it) => it.notary_pay]] : []),
  ["Created (UTC)", (it) => instantOf(it.created_at)],
  ["Created by", (it) => it.created_by, true],
  ["Changed (UTC)", (it) => instantOf(it.updated_at)],
  ["Changed by", (it) => it.changed_by, true],
];

// Some spreadsheets end a cell at a semicolon or a tab, some within quotes or at a quote, too. Those of East Asia take
// full-width characters for those of a formula. The same rule is in output.rs of the commands.
const FORMULA = /(^|[,;\t\r\n"])( *)(?=[=+\-@＝＋－＠])/g;

/** Returns a text in which an apostrophe stands before what a spreadsheet would take for a formula. */
const defused = (text) => text.replace(/^(?=[\t\r])/, "'").replace(FORMULA, "$1$2'");

const MONTH =
  "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)";

/** A number that a spreadsheet shows as it is. */
const PLAIN = /^(?:0|[1-9]\d{0,10})$/;

const DATE = `(?:${[
  "(?:\\d{1,2}[-/.]\\d{1,2}|\\d{1,2}[-/.]\\d{4}|\\d{4}[-/.]\\d{1,2})(?:[-/.]\\d{1,4})?",
  `${MONTH}[-/., ]*\\d{1,4}(?:[-/., ]+\\d{1,4})?`,
  `\\d{1,4}[-/., ]*${MONTH}(?:[-/., ]*\\d{1,4})?`,
].join("|")})`;

const TIME = "\\d{1,4}(?::\\d{1,2}){1,2}(?:\\.\\d+)?(?: ?[ap]m?)?";

/** What it would make another number, a date or a time. */
const CHANGED = new RegExp(`^(?:${[
  "[$€£(]? ?(?:\\d[\\d,]*(?:\\.\\d*)?|\\.\\d+) ?[)%]?",
  "(?:\\d+(?:\\.\\d*)?|\\.\\d+)e[+-]?\\d+",
  "\\d+ \\d+/\\d+",
  `${DATE}(?: ${TIME})?`,
  TIME,
  "\\d{1,2} ?[ap]m?",
  "true|false",
].join("|")})$`, "i");

/**
 * Returns a text, or the number of something, that stays as it is. A tab at its end is part of no number or date, so a
 * spreadsheet shows the text, and a program that trims reads the value.
 */
function textual(value) {
  const text = String(value ?? "");
  return CHANGED.test(text) && !PLAIN.test(text) ? `${text}\t` : value;
}

/** Returns a cell. */
function cell(value) {
  const safe = typeof value === "string" ? defused(value) : String(value ?? "");
  return /[",;\t\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

const lineOf = (cells) => `${cells.map(cell).join(",")}\r\n`;

/** Returns who has done something: the name on the own side, else the side. */
const doer = (entry) => entry && (entry.by ?? role(entry.actor));

/** Returns the creation of an order whose read has newer entries of the history only. */
async function creationOf(id) {
  const entry = async (cursor) => {
    const { body } = await patiently(() => request(`api/order/${id}/history?limit=1&${cursor}`));
    return body.data[0];
  };
  // The creation is 0 in every history. The entry after it leads to it.
  const { id: next } = await entry("ending_before=0");
  return entry(`starting_after=${next}`);
}

/** Requests at a time. */
const AT_ONCE = 4;

/**
 * Reads orders whole, and returns them as CSV (RFC 4180), which spreadsheets read as UTF-8, with their number. Keeps no
 * more of them than their lines. Orders that are gone are left out. `progress` gets the number of orders so far.
 */
export async function csvOf(orders, progress) {
  const all = columns();
  const line = (order) => lineOf(all.map(([, of, isText]) => (isText ? textual(of(order)) : of(order))));
  const lines = new Array(orders.length);
  let [next, read] = [0, 0];
  const reader = async () => {
    while (next < orders.length) {
      const at = next++;
      try {
        const { body } = await patiently(() => request(`api/order/${orders[at].order_id}`));
        const { history } = body;
        const created = history.find(({ kind }) => kind === "created") ?? (await creationOf(body.order_id));
        lines[at] = line({ ...body, created_by: doer(created), changed_by: doer(history.at(-1)) });
      } catch (failure) {
        if (![404, 410].includes(failure.status)) throw failure;
      }
      progress(++read);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, reader));
  const found = lines.filter(Boolean);
  const head = lineOf(all.map(([title]) => title));
  return { csv: new Blob(["\ufeff", head, ...found], { type: "text/csv" }), number: found.length };
}
