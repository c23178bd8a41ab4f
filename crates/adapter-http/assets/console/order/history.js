// What happened to an order, in words.

import { ago } from "../shared/times.js";
import { count, said } from "../shared/dom.js";
import { FIELDS, INSTANTS, member } from "../shared/fields.js";
import { CANCELLED, inWords, role, statusWord } from "../shared/words.js";

/** Returns when an order of a list was changed last, notes included. */
export function changedAt({ last_change: change, newest_note: note, updated_at: updatedAt }) {
  const all = [change?.at, note?.at].filter(Boolean);
  return all.length ? all.toSorted().at(-1) : updatedAt;
}

/** Returns what was changed last in an order of a list, and by which side. */
export function lastChange(order) {
  const { last_change: change, newest_note: note } = order;
  if (note && (!change || note.at > change.at)) return `Note, ${role(note.author)}`;
  if (!change) return "";
  const words = [
    eventWords(change, { notary: order.notary, isLastNotary: true }),
    ", ", role(change.actor),
  ];
  return change.reason ? [words, ": ", said(change.reason)] : words;
}

/**
 * Returns what happened. `before` is the entry before, if it is known, and `order` has what the order is now:
 * documents with their names, the notary, and details. `later` are all entries after it.
 */
export function eventWords(entry, { before, notary, isLastNotary, order, later = [] } = {}) {
  switch (entry.kind) {
    case "created":
      return "Created";
    case "status":
      return ofStatus(entry, before, isLastNotary ? notary : null);
    case "changed":
      return changes(entry, order, later);
    case "documents_added":
      return added("document", entry.documents, order?.documents);
    case "signed_documents_added":
      return added("signed document", entry.documents, order?.signed_documents);
    case "documents_replaced":
      return replaced(entry.documents, order?.documents);
    case "withdrawn":
      // Each side withdraws its own documents.
      return entry.actor === "service" ? "Signed document withdrawn" : "Document withdrawn";
    case "documents_erased":
      return "All documents erased: they are kept no longer";
  }
  return said(entry.kind.replaceAll("_", " "));
}

/** Returns the name of a document of an order. */
export const nameOf = (it) => it?.name_as_sent || (it?.withdrawn_at ? "withdrawn document" : "document");

/** Returns names of documents, each on its own. */
export const named = (documents) => documents.map((it, at) => [at ? ", " : "", said(nameOf(it))]);

function added(noun, positions = [], documents) {
  const known = positions.map((position) => documents?.find((it) => it.position === position)).filter(Boolean);
  if (!positions.length) return `${noun[0].toUpperCase()}${noun.slice(1)}s added`;
  return [`${count(positions.length, noun)} added`, known.length > 0 && [": ", named(known)]].filter(Boolean);
}

function replaced(positions = [], documents) {
  const current = documents?.find((it) => it.position === positions[0]);
  const former = documents?.find((it) => it.position === current?.replaces);
  if (!current || !former) return "Document replaced";
  return ["Document replaced: ", said(nameOf(former)), " by ", said(nameOf(current))];
}

function ofStatus(entry, before, notary) {
  const { order_status: status, notary_id: number } = entry;
  if (status === CANCELLED) return "Cancelled";
  // A client assigns nobody: it has moved a confirmed appointment.
  if (status === "ASSIGNED" && entry.actor === "client") return "No longer confirmed: the appointment was changed";
  const isOther = !before || status !== before.order_status;
  const isOtherNotary = before && number !== before.notary_id;
  const person = notary?.name && [said(notary.name), number !== null && ` (number ${number})`];
  const who = person || (number !== null && [`number ${number}`]);
  const ofNotary = who ? ["notary ", who] : "notary removed";
  if (isOther && isOtherNotary) return [statusWord(status), ", ", ofNotary];
  if (isOther) return [statusWord(status), status === "ASSIGNED" && who && [" to ", who]];
  if (isOtherNotary) return ["Notary: ", who || "none"];
  if (entry.reason) return before.reason ? "Another reason" : "Reason added";
  return ["Name or contact of the notary changed", notary?.name && [": ", said(notary.name)]];
}

/** Returns what fields are after a change, and were before. */
function changes({ changed, before }, order, later) {
  const own = changed.filter((it) => !INSTANTS.includes(it));
  const shown = (own.length ? own : changed).map((pointer) => {
    const field = FIELDS.find((it) => it.pointer === pointer);
    const next = later.find((it) => it.changed?.includes(pointer));
    return { pointer, field, next, label: said(field?.label ?? pointer) };
  });
  if (!before) return ["Changed: ", shown.map((it, at) => [at ? ", " : "", it.label, now(it, order)])];
  const valued = shown.map(({ pointer, field, next, label }) => {
    const words = (value) => (value === null ? "empty" : inWords(plainly(field ?? {}), value));
    // What the next change of the field found. It is unknown if that was too long to be kept.
    const after = next ? next.before?.[pointer] : order && (member(order.details, pointer) ?? null);
    const old = before[pointer] === undefined ? "too long to be kept" : words(before[pointer]);
    return [label, after !== undefined && [": ", words(after)], " (before: ", old, ")"];
  });
  return valued.map((it, at) => [at ? "; " : "", it]);
}

/** Returns what a field is now, of an entry without values, unless it was changed again. */
function now({ pointer, field, next }, order) {
  const value = order && !next ? member(order.details, pointer) : undefined;
  return value !== undefined && field && [" (now ", inWords(plainly(field), value), ")"];
}

/** Returns a field whose value has no link. */
const plainly = (field) => ({ ...field, kind: ["tel", "email"].includes(field.kind) ? "text" : field.kind });

/** Returns who changed an order that the user looks at, when, and what. */
export function newsOf(order, since) {
  const changed = order.history.filter(({ at }) => at > since);
  const notes = order.notes.filter(({ at }) => at > since);
  const isTold = order.history.some(({ kind }) => kind === "documents_added");
  const documents = isTold ? [] : order.documents.filter((it) => it.replaces === null && it.created_at > since);
  const additions = documents.map((it) => ({ at: it.created_at, actor: it.uploaded_by, by: it.by }));
  const last = [...changed, ...additions, ...notes].toSorted((one, other) => (one.at < other.at ? -1 : 1)).at(-1);
  const known = { notary: order.notary, isLastNotary: true, order };
  const around = (at) => ({ before: order.history[at - 1], later: order.history.slice(at + 1) });
  const what = [
    ...changed.map((entry) => eventWords(entry, { ...known, ...around(order.history.indexOf(entry)) })),
    documents.length > 0 && [count(documents.length, "document"), " added: ", named(documents)],
    notes.length > 0 && count(notes.length, "new note"),
  ].filter(Boolean);
  const by = last && [" by ", last.by ? said(last.by) : `the ${role(last.actor ?? last.author)}`];
  const list = what.map((it, at) => [at ? "; " : ": ", it]);
  return ["Changed", by, ` ${ago(last?.at ?? order.updated_at)}`, list];
}

