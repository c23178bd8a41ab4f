// What the list of orders shows: its view and its filters, as its address has them.

import { session } from "../shared/api.js";
import { dateIn } from "../shared/times.js";

export const ADDRESS = "#/orders";

/** The views of the list: name in the address, and title. */
export const VIEWS = [["today", "Today"], ["tomorrow", "Tomorrow"], ["week", "This week"], ["new", "New"], ["all", "All"]];

/** The first and the last day of a view that is an agenda, counted from today. */
const DAYS = { today: [0, 0], tomorrow: [1, 1], week: [0, 6] };

/** Characters from which the service finds a part of a text. */
const PART = 3;

/** The texts of a search in the address, besides the statuses. */
const TEXTS = ["search", "signing_date_from", "signing_date_to", "created_from", "created_to"];

/** Signing services begin with their new orders, clients with all. */
const firstView = () => (session.isService ? "new" : "all");

/** Returns the search of an address. */
export function searchOf(address) {
  const parameters = new URLSearchParams(address.split("?")[1]);
  const texts = TEXTS.map((name) => [name, parameters.get(name) ?? ""]);
  const view = VIEWS.find(([name]) => name === parameters.get("view"))?.[0] ?? firstView();
  const statuses = (parameters.get("order_status") ?? "").split(",").filter(Boolean);
  const depth = Math.max(1, Number(parameters.get("pages")) || 1);
  return { ...Object.fromEntries(texts), view, statuses, depth, from: parameters.get("from") ?? "" };
}

/** Returns the address of a search. */
export function addressOf({ statuses, depth, view, ...texts }) {
  const pages = depth > 1 ? depth : "";
  // A link means the same to both sides.
  const all = { view, ...texts, order_status: statuses.join(","), pages };
  const parameters = new URLSearchParams(Object.entries(all).filter(([, value]) => value));
  return `${ADDRESS}?${parameters}`;
}

/** Returns a search in another view, with the filters that the view has. */
export function inView(search, view) {
  const other = { ...search, view, depth: 1, from: "" };
  if (view === "new") other.statuses = [];
  if (DAYS[view]) [other.signing_date_from, other.signing_date_to] = ["", ""];
  return other;
}

export const isAgenda = ({ view }) => view in DAYS;

/** Returns whether a search leaves orders of its view out. */
export const isFiltered = ({ statuses, ...search }) => statuses.length > 0 || TEXTS.some((name) => search[name]);

/** Returns whether the text of a search can only be a whole file number. */
export const isShort = ({ search }) => search.length > 0 && search.length < PART;

/** Returns the first and the last day of an agenda. */
export const daysOf = ({ view }) => DAYS[view].map(dateIn);

/** Returns the instant at which a day begins in the zone of the browser, some days later. */
function midnight(date, days) {
  const [year, month, day] = date.split("-").map(Number);
  const at = new Date(year, month - 1, day + days);
  return Number.isNaN(at.getTime()) ? "" : at.toISOString();
}

/** Returns the parameters of a search. */
export function filterOf(search) {
  const { view, statuses, created_from: from, created_to: to, search: text } = search;
  const [first, last] = isAgenda(search) ? daysOf(search) : [search.signing_date_from, search.signing_date_to];
  const filter = {
    search: isShort(search) ? "" : text,
    file_number: isShort(search) ? text : "",
    order_status: view === "new" ? "NEW" : statuses.join(","),
    signing_date_from: first,
    signing_date_to: last,
    created_after: from && midnight(from, 0),
    created_before: to && midnight(to, 1),
  };
  return Object.fromEntries(Object.entries(filter).filter(([, value]) => value));
}
