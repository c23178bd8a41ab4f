// The history of an order and its notes as one timeline in words, newest first.

import { nextPage, request } from "../shared/api.js";
import { button, card, count, h, instant, said } from "../shared/dom.js";
import { eventWords, named } from "./history.js";
import { party, statusBadge } from "../shared/words.js";

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
    const events = this.#entries.map((entry, at) => [entry.at, this.#event(order, entry, at)]);
    const additions = this.#additions(order).map((those) => [those[0].created_at, addition(order, those)]);
    const notes = this.#notes.map((note) => [note.at, noteItem(order, note)]);
    // Older notes come with the older entries, and the other way round.
    const shown = [...events, ...additions, ...notes].filter(([at]) => at >= this.#from);
    // Of the same instant, the note is the newer one.
    const all = shown.sort(([one], [other]) => (one < other ? -1 : Number(one > other))).reverse();
    return card(
      "Timeline",
      form,
      h("ol", { class: "timeline", "aria-label": "Notes and history, newest first" }, all.map(([, item]) => item)),
      this.#from && h("p", {}, button("Show older entries", older, { id: "history-older" })),
    );
  }

  #event(order, entry, at) {
    const before = this.#entries[at - 1];
    const isOther = entry.kind !== "status" && entry.order_status !== before?.order_status;
    const later = this.#entries.slice(at + 1);
    const isOfNotary = (it, of) => it.kind === "status" && !it.reason && it.order_status === of?.order_status;
    // The history has the number of a notary. The name is that of the order, which the last such entry has left.
    const isLastNotary = !later.some((it, after) => {
      const previous = this.#entries[at + after];
      return it.notary_id !== previous.notary_id || isOfNotary(it, previous);
    });
    const words = eventWords(entry, { before, notary: order.notary, isLastNotary, order, later });
    const first = entry.kind === "created" ? this.#first(order) : [];
    const papers = first.length > 0 && [" with ", count(first.length, "document"), ": ", named(first)];
    return h(
      "li",
      {},
      h("div", {}, words, papers, isOther && [" ", statusBadge(entry.order_status)]),
      h("div", { class: "hint" }, instant(entry.at), ", ", party(entry.actor, order, entry.by)),
      entry.reason && h("div", { class: "said" }, "Reason: ", said(entry.reason)),
    );
  }

  /** Returns the documents that the order was created with. */
  #first(order) {
    return order.documents.filter((it) => it.replaces === null && it.created_at <= order.created_at);
  }

  /** Returns the documents that were added later, by request: the history of the service has no entry of them. */
  #additions(order) {
    if (this.#entries.some(({ kind }) => kind === "documents_added")) return [];
    const first = this.#first(order);
    const added = order.documents.filter((it) => it.replaces === null && !first.includes(it));
    return [...Map.groupBy(added, (it) => it.created_at).values()];
  }
}

const addition = (order, documents) =>
  h(
    "li",
    {},
    h("div", {}, count(documents.length, "document"), " added: ", named(documents)),
    h("div", { class: "hint" }, instant(documents[0].created_at), ", ", party(documents[0].uploaded_by, order, documents[0].by)),
  );

const noteItem = (order, note) =>
  h(
    "li",
    { class: "note" },
    h("div", { class: "said" }, said(note.text)),
    h("div", { class: "hint" }, "Note, ", instant(note.at), ", ", party(note.author, order, note.by)),
  );
