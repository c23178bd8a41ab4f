// The history of an order and its notes as one timeline in words, newest first.

import { nextPage, request } from "../shared/api.js";
import { badge, button, card, count, h, instant, said } from "../shared/dom.js";
import { FIELDS, INSTANTS } from "../shared/fields.js";
import { CANCELLED, party } from "../shared/words.js";

/** Entries and notes that an order has in a read, and on a page of its history and of its notes. */
const PAGE = 100;

/** Bytes of text after which a read may leave out a note: 64 KiB without the longest note. */
const SURELY_READ = 65_536 - 20_000;

/** Returns whether a read of an order has all of its notes for sure. */
function hasAllNotes(notes) {
  const bytes = new TextEncoder().encode(notes.map(({ text }) => text).join("")).length;
  return notes.length < PAGE && bytes <= SURELY_READ;
}

export class Timeline {
  #path;
  #reload;
  #pages = 1;
  #entries = [];
  #notes = [];
  /** The instant of the oldest item that is shown: there are older ones. Empty if there are none. */
  #from = "";

  /** `reload` shows the order again. */
  constructor(path, reload) {
    [this.#path, this.#reload] = [path, reload];
  }

  /** Reads as much as the user asked for. An order that was read has the newest entries and notes. */
  async read({ history, notes }) {
    this.#from = "";
    this.#entries = history.length < PAGE ? history : await this.#newest("history");
    this.#notes = hasAllNotes(notes) ? notes : await this.#newest("notes");
  }

  /** Returns the newest items of a part of the order, oldest first. */
  async #newest(part) {
    const items = [];
    let address = `${this.#path}/${part}?limit=${PAGE}`;
    for (let page = 0; address && page < this.#pages; page++) {
      const { body, headers } = await request(address);
      items.push(...body.data);
      address = nextPage(headers);
    }
    const oldest = address ? (items.at(-1)?.at ?? "") : "";
    if (oldest > this.#from) this.#from = oldest;
    return items.reverse();
  }

  /** Returns the card. `form` writes a note. */
  card(order, form) {
    const older = () => {
      this.#pages++;
      this.#reload();
    };
    const events = this.#entries.map((entry, at) => [entry.at, this.#event(order, entry, this.#entries[at - 1])]);
    const notes = this.#notes.map((note) => [note.at, noteItem(order, note)]);
    // Older notes come with the older entries, and the other way round.
    const shown = [...events, ...notes].filter(([at]) => at >= this.#from);
    // Of the same instant, the note is the newer one.
    const all = shown.sort(([one], [other]) => (one < other ? -1 : Number(one > other))).reverse();
    return card(
      "Timeline",
      form,
      h("ol", { class: "timeline", "aria-label": "Notes and history, newest first" }, all.map(([, item]) => item)),
      this.#from && h("p", {}, button("Show older entries", older, { id: "history-older" })),
    );
  }

  #event(order, entry, before) {
    const isOther = entry.order_status !== before?.order_status;
    return h(
      "li",
      {},
      h("div", {}, words(entry, before), isOther && [" ", badge(entry.order_status)]),
      h("div", { class: "hint" }, instant(entry.at), ", ", party(entry.actor, order)),
      entry.reason && h("div", { class: "said" }, "Reason: ", said(entry.reason)),
    );
  }
}

const noteItem = (order, note) =>
  h(
    "li",
    { class: "note" },
    h("div", { class: "said" }, said(note.text)),
    h("div", { class: "hint" }, "Note, ", instant(note.at), ", ", party(note.author, order)),
  );

/** Returns what happened. `before` is the entry before, if it is known. */
function words(entry, before) {
  const documents = entry.documents?.length ?? 0;
  switch (entry.kind) {
    case "created":
      return "Created";
    case "status":
      return ofStatus(entry, before);
    case "changed":
      return said(`Changed: ${labels(entry.changed)}`);
    case "signed_documents_added":
      return documents ? `${count(documents, "signed document")} added` : "Signed documents added";
    case "documents_replaced":
      return "Document replaced";
    case "withdrawn":
      // Each side withdraws its own documents.
      return entry.actor === "service" ? "Signed document withdrawn" : "Document withdrawn";
    case "documents_erased":
      return "All documents erased: the operator keeps them no longer";
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
  const number = changed.includes("notary") && entry.notary_id ? `: number ${entry.notary_id}` : "";
  return `${what[0].toUpperCase()}${what.slice(1)} changed${number}`;
}

/** Returns the labels of fields. The instants follow from the other fields of an appointment. */
function labels(pointers) {
  const own = pointers.filter((it) => !INSTANTS.includes(it));
  const label = (pointer) => FIELDS.find((it) => it.pointer === pointer)?.label ?? pointer;
  return (own.length ? own : pointers).map(label).join(", ");
}
