// The history of an order in words, with older entries on demand.

import { nextPage, request } from "./api.js";
import { badge, button, card, count, h, instant, said, table } from "./dom.js";
import { FIELDS, INSTANTS } from "./fields.js";
import { CANCELLED, party } from "./words.js";

/** Entries that an order has in a read, and on a page of its history. */
const PAGE = 100;

export class History {
  #path;
  #reload;
  #pages = 1;
  #entries = [];
  #hasOlder = false;

  /** `reload` shows the order again. */
  constructor(path, reload) {
    [this.#path, this.#reload] = [`${path}/history`, reload];
  }

  /** Reads as many entries as the user asked for. An order that was read has the newest ones. */
  async read({ history }) {
    [this.#entries, this.#hasOlder] = [history, history.length >= PAGE];
    if (this.#pages === 1) return;
    const entries = [];
    let address = `${this.#path}?limit=${PAGE}`;
    for (let page = 0; address && page < this.#pages; page++) {
      const { body, headers } = await request(address);
      entries.push(...body.data);
      address = nextPage(headers);
    }
    [this.#entries, this.#hasOlder] = [entries.reverse(), Boolean(address)];
  }

  card(order) {
    const older = () => {
      this.#pages++;
      this.#reload();
    };
    const cells = (entry, at) => [
      instant(entry.at),
      words(entry, this.#entries[at - 1]),
      badge(entry.order_status),
      String(entry.notary_id ?? "none"),
      party(entry.actor, order),
    ];
    return card(
      "History",
      this.#hasOlder && h("p", {}, button("Show older entries", older, { id: "history-older" })),
      table("Oldest first", ["When", "What", "Status", "Notary number", "By"], this.#entries.map(cells)),
    );
  }
}

/** Returns what happened. `before` is the entry before, if it is known. */
function words(entry, before) {
  const documents = entry.documents?.length ?? 0;
  switch (entry.kind) {
    case "created":
      return "Created";
    case "status":
      return h("div", {}, said(ofStatus(entry, before)), entry.reason && h("div", {}, "Reason: ", said(entry.reason)));
    case "changed":
      return said(`Changed: ${labels(entry.changed)}`);
    case "signed_documents_added":
      return documents ? `${count(documents, "signed document")} added` : "Signed documents added";
    case "documents_replaced":
      return "Document replaced";
    case "withdrawn":
      // Each side withdraws its own documents.
      return entry.actor === "service" ? "Signed document withdrawn" : "Document withdrawn";
  }
  return said(entry.kind.replaceAll("_", " "));
}

function ofStatus(entry, before) {
  if (entry.order_status === CANCELLED) return "Cancelled";
  if (!before) return "Status or notary changed";
  const changed = [
    entry.order_status !== before.order_status && "status",
    entry.notary_id !== before.notary_id && "notary",
  ].filter(Boolean);
  const what = changed.join(" and ") || "name or contact of the notary";
  return `${what[0].toUpperCase()}${what.slice(1)} changed`;
}

/** Returns the labels of fields. The instants follow from the other fields of an appointment. */
function labels(pointers) {
  const own = pointers.filter((it) => !INSTANTS.includes(it));
  const label = (pointer) => FIELDS.find((it) => it.pointer === pointer)?.label ?? pointer;
  return (own.length ? own : pointers).map(label).join(", ");
}
