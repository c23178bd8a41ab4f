// What the list of orders shows: its view, its filters and its order, as its address has them.

import { session } from "../shared/api.js";
import { dateIn, midnight } from "../shared/times.js";

export const ADDRESS = "#/orders";

/** The views of the list: name in the address, and title. */
export const VIEWS = [
  ["attention", "Needs attention"], ["today", "Today"], ["tomorrow", "Tomorrow"], ["week", "Next 7 days"],
  ["new", "New"], ["changed", "Changed"], ["all", "All"],
];

/** The first and the last day of a view that is an agenda, counted from today. */
const DAYS = { today: [0, 0], tomorrow: [1, 1], week: [0, 6] };

/** The days whose changes a view can show: value in the address, first day counted from today, and title. */
export const SINCE = [["", -1, "since yesterday"], ["today", 0, "since this morning"], ["week", -6, "in the last 7 days"]];

/** Characters from which the service finds a part of a text. */
const PART = 3;

/** The texts that filter, and those that do not. */
const FILTERS = [
  "search", "signing_date_from", "signing_date_to", "created_from", "created_to", "notary", "client", "signing_service_id",
];
const TEXTS = [...FILTERS, "code", "since", "sort"];

/** Filters that only one side has. */
const OF_SIDE = { client: "service", signing_service_id: "client" };

/** Signing services begin with their new orders, clients with all. */
const firstView = () => (session.isService ? "new" : "all");

/** Returns the search of an address. */
export function searchOf(address) {
  const parameters = new URLSearchParams(address.split("?")[1]);
  const has = (name) => !OF_SIDE[name] || OF_SIDE[name] === session.terms.party;
  const texts = TEXTS.map((name) => [name, (has(name) && parameters.get(name)) || ""]);
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
  const other = { ...search, view, depth: 1, from: "", code: "", since: "", sort: "" };
  if (view === "new") other.statuses = [];
  if (DAYS[view]) [other.signing_date_from, other.signing_date_to] = ["", ""];
  return other;
}

export const isAgenda = ({ view }) => view in DAYS;

/** Returns how many filters a search has that leave orders of its view out. */
export const filterCount = ({ statuses, ...search }) =>
  Number(statuses.length > 0) + FILTERS.filter((name) => search[name]).length;

/** Returns whether a search leaves orders of its view out. */
export const isFiltered = (search) => filterCount(search) > 0;

/** Returns whether the text of a search can only be a whole file number. */
export const isShort = ({ search }) => search.length > 0 && search.length < PART;

/** Returns the first and the last day of an agenda. */
export const daysOf = ({ view }) => DAYS[view].map((days) => dateIn(days));

/** Returns the first day of which a view shows the changes. */
const sinceOf = ({ since }) => SINCE.find(([value]) => value === since) ?? SINCE[0];
export const sinceInWords = (search) => sinceOf(search)[2];

/** Returns the parameters of a search. */
export function filterOf(search) {
  const { view, statuses, created_from: from, created_to: to, search: text, code, notary, client } = search;
  const [first, last] = isAgenda(search) ? daysOf(search) : [search.signing_date_from, search.signing_date_to];
  const filter = {
    search: isShort(search) ? "" : text,
    file_number: isShort(search) ? text : "",
    order_status: view === "new" ? "NEW" : statuses.join(","),
    signing_date_from: first,
    signing_date_to: last,
    created_after: from && midnight(from),
    created_before: to && midnight(to, 1),
    notary,
    client,
    signing_service_id: search.signing_service_id,
    attention: view === "attention" && (code || "any"),
    updated_after: view === "changed" && midnight(dateIn(sinceOf(search)[1])),
    order_by: (isAgenda(search) || view === "attention") && "appointment",
  };
  return Object.fromEntries(Object.entries(filter).filter(([, value]) => value));
}
