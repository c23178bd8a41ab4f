// Words for what the API answers in codes.

import { day, emailLink, phoneLink, said } from "./dom.js";
import { Digits } from "./api.js";
import { zoneName } from "./zones.js";

export const CANCELLED = "CANCELLED";

/** The usual statuses. A signing service may use others. */
export const STATUSES = [
  "NEW", "ASSIGNED", "CONFIRMED", "ON_HOLD", "SIGNED", "DID_NOT_SIGN", "COMPLETED", CANCELLED,
];

const CLOSED = ["SIGNED", "COMPLETED", CANCELLED];

/** Returns whether an order can be cancelled. */
export const isCancellable = ({ order_status: status }) => !CLOSED.includes(status);

/** Returns whether its client can change an order. */
export const isChangeable = (order) => isCancellable(order) && order.order_status !== "DID_NOT_SIGN";

const ACTORS = { client: "client", service: "signing service", operator: "operator", database: "operator’s system" };

/** Returns the role of who has done something. */
export const role = (actor) => ACTORS[actor] ?? actor;

/** Returns who has done something with an order. */
export function party(actor, { client_name: client, signing_service_name: service }) {
  const name = { client, service }[actor];
  return name ? [said(name), ` (${role(actor)})`] : said(role(actor));
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
