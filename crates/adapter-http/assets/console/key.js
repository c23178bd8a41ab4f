// The key of the user: what it is, where one comes from, and what is kept where.

import { RIGHTS, problem, request, session } from "./shared/api.js";
import { badge, card, fill, h, instant, said } from "./shared/dom.js";

/** Returns the view of the key. */
export function keyView() {
  const element = h("div", {}, h("p", {}, "Loading…"));
  const load = async () => {
    try {
      session.terms = (await request("api/key")).body;
      fill(element, termsCard(session.terms), storageCard());
    } catch (failure) {
      fill(element, problem(failure));
    }
  };
  load();
  return { title: "Your key", element };
}

function termsCard(terms) {
  const { signing_service_id: number, signing_service_name: name } = terms;
  const service = number === null ? "any" : name ? [said(name), ` (number ${number})`] : `number ${number}`;
  const isClient = terms.party === "client";
  const right = (it) => h("li", { title: it }, RIGHTS[it] ?? it);
  const ofOtherSide = isClient ? "orders:update" : "orders:create";
  const lacks = Object.keys(RIGHTS).filter((it) => it !== ofOtherSide && !terms.scopes.includes(it));
  const entries = [
    ["Name", said(terms.name)],
    isClient && ["Client", said(terms.client_name), ` (number ${terms.client_id})`],
    [isClient ? "Orders for signing service" : "Signing service", service],
    ["Kind", terms.is_test ? badge("Test") : badge("Live"), terms.is_test ? " sees test orders only; they cause no mails" : " sees live orders"],
    ["Expires", terms.expires_at ? instant(terms.expires_at) : "never"],
    ["Last use", terms.last_used_at ? instant(terms.last_used_at) : "just now, for the first time"],
    ["May", terms.scopes.length ? h("ul", {}, terms.scopes.map(right)) : "nothing"],
    lacks.length > 0 && ["May not", h("ul", {}, lacks.map(right))],
  ].filter(Boolean);
  const row = ([label, ...value]) => h("div", { class: isList(label) && "wide" }, h("dt", {}, label), h("dd", {}, value));
  const text = "Another name, other rights or a new key: ask your administrator.";
  return card("What this key is", h("dl", { class: "grid" }, entries.map(row)), h("p", { class: "hint" }, text));
}

const isList = (label) => ["May", "May not"].includes(label);

/** Returns what is kept where. */
function storageCard() {
  const item = (what, where) => h("li", {}, h("strong", {}, what), ` ${where}`);
  return card(
    "What is kept where",
    h(
      "ul",
      {},
      item("Your key", "stays in this tab. “Forget the key” or closing the tab removes it."),
      item(
        "An order that you have begun",
        "stays in this browser until it is created or you discard it, also when the key is forgotten. Only a key of " +
          "the same client sees it here. On a shared computer, discard it when you leave.",
      ),
      item(
        "Your company number, user number, signing service and order contact",
        "stay in this browser for the next order.",
      ),
      item(
        "A note, a notary or a status that you have begun to enter, and the names of chosen files",
        "stay in this browser until they are sent or you remove them.",
      ),
      item("Which orders you have opened", "stays in this browser, by their numbers: lists show the others in bold."),
      item("Orders, documents and notes", "are with the service. The browser’s cache has none of them."),
    ),
  );
}

/** Returns what a user without a key should know. */
export function signInHelp() {
  return h(
    "div",
    {},
    card(
      "What this is",
      h(
        "p",
        {},
        "Title companies and escrow officers create, find and change orders for notarial signings here. Signing " +
          "services carry them out and return the signed documents.",
      ),
    ),
    card(
      "Where a key comes from",
      h("p", {}, "The administrator of this site issues keys. Ask for one, and for a test key to try things out."),
      h(
        "p",
        {},
        "Do you run this site yourself? Its first start shows a key in the terminal. Without a terminal, the key is " +
          "in the file ",
        h("code", {}, "first-key"),
        " of the data directory, such as ",
        h("code", {}, "data/first-key"),
        ". The command ",
        h("code", {}, "notary-orders keys issue"),
        " makes more.",
      ),
    ),
    storageCard(),
  );
}
