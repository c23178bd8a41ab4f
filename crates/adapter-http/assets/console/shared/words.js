// Words for what the API answers in codes.

import { day, emailLink, h, phoneLink, said } from "./dom.js";
import { Digits } from "./api.js";
import { clock } from "./times.js";
import { zoneName } from "./zones.js";

export const [CANCELLED, DID_NOT_SIGN] = ["CANCELLED", "DID_NOT_SIGN"];

/** The usual statuses. A signing service may use others. */
export const STATUSES = [
  "NEW", "ASSIGNED", "CONFIRMED", "ON_HOLD", "SIGNED", DID_NOT_SIGN, "COMPLETED", CANCELLED,
];

/** The usual statuses in the words of the trade. */
const WORDS = {
  NEW: "New", ASSIGNED: "Assigned", CONFIRMED: "Confirmed", ON_HOLD: "On hold", SIGNED: "Signed",
  DID_NOT_SIGN: "Did not sign", COMPLETED: "Completed", CANCELLED: "Cancelled",
};

/** Returns a status in words. */
export const statusWord = (status) => WORDS[status] ?? status;

/** Returns a status of an order as a badge; its code is there on demand. */
export const statusBadge = (status) =>
  h("span", { class: "badge", "data-status": status.toLowerCase(), title: status }, said(statusWord(status)));

/** Returns a status without the differences that the service overlooks. */
export const plain = (status) => status.toUpperCase().replace(/[\s_-]/g, "");

/**
 * What needs attention, the most urgent first: code, what is wrong, a mark for a row, and what the signing service
 * and the client do about it.
 */
export const ATTENTION = [
  ["unassigned", "No notary, and less than 24 hours to the start", "No notary",
    "Assign a notary.", "Ask the signing service for a notary."],
  ["unconfirmed", "Not confirmed, and less than 4 hours to the start", "Not confirmed",
    "Call the notary, and confirm the appointment.", "Ask the signing service to confirm the appointment."],
  ["no_documents", "No documents, and less than 2 hours to the start", "No documents",
    "Ask the client for the documents.", "Add the documents."],
  ["not_fetched", "Documents not fetched, and less than 1 hour to the start", "Not fetched",
    "Fetch the documents, and give them to the notary.", "Call the signing service: it has not fetched the documents."],
  ["no_result", "The signing is over, and its result is missing", "No result",
    "Ask the notary, and mark the order as signed or not signed.", "Ask the signing service how the signing went."],
  ["no_scanbacks", "Signed, and the scanbacks are missing", "No scanbacks",
    "Upload the scanbacks.", "Ask the signing service for the scanbacks."],
];

/** Returns what needs attention at an order. One that is over needs its result, whatever its preparation has lacked. */
export function lateOf({ attention = [] }) {
  const codes = attention.includes("no_result") ? ["no_result"] : attention;
  return ATTENTION.filter(([code]) => codes.includes(code));
}

const CLOSED = ["SIGNED", "COMPLETED", CANCELLED];

/** Returns whether an order can be cancelled. */
export const isCancellable = ({ order_status: status }) => !CLOSED.includes(status);

/** Returns whether its client can change an order. */
export const isChangeable = (order) => isCancellable(order) && order.order_status !== DID_NOT_SIGN;

const ACTORS = { client: "client", service: "signing service", operator: "administrator", database: "administrator’s system" };

/** Returns the role of who has done something. */
export const role = (actor) => ACTORS[actor] ?? actor;

/** Returns who has done something with an order: the side, and `by` if it is the own one. */
export function party(actor, { client_name: client, signing_service_name: service }, by) {
  const name = { client, service }[actor];
  const side = name ? [said(name), ` (${role(actor)})`] : said(role(actor));
  return by ? [said(by), ", ", side] : side;
}

const FORMATS = {
  "application/pdf": "PDF",
  "application/msword": "Word",
  "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "Word",
  "image/jpeg": "JPEG",
  "image/png": "PNG",
};

/** Returns the format of a document. */
export const format = (mediaType) => FORMATS[mediaType] ?? mediaType;

/** Returns the value of a field of an order. */
export function inWords({ kind, options }, value) {
  if (typeof value === "boolean") return value ? "Yes" : "No";
  const text = value instanceof Digits ? value.text : value;
  switch (kind) {
    case "date":
      return day(text);
    case "time":
      return clock(text);
    case "zone":
      return said(zoneName(text));
    case "amount":
      return Number.isFinite(Number(text)) ? Number(text).toFixed(2) : said(text);
    case "tel":
      return phoneLink(text);
    case "email":
      return emailLink(text);
  }
  const option = options?.find(([name]) => name === text);
  return said(option ? option[1] : text);
}
