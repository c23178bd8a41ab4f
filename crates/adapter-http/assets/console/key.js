// The key with which the user has signed in: what it is. And what a user without a session should know.

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
export function storageCard() {
  const item = (what, where) => h("li", {}, h("strong", {}, what), ` ${where}`);
  return card(
    "What is kept where",
    h(
      "ul",
      {},
      item(
        "Your sign-in",
        "stays in this browser as a cookie that no page can read, for every tab. “Sign out” ends it, and so does the time. " +
          "A key is never kept.",
      ),
      item(
        "An order that you have begun",
        "stays in this browser until it is created or you discard it, also when you sign out. Only you see it here, or " +
          "a key of the same client. On a shared computer, discard it when you leave.",
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

/** Returns what a user who is not signed in should know. */
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
      "How to get in",
      h(
        "p",
        {},
        "An admin of your office invites you: open the link of the invitation, and make a passkey. Later visits need only " +
          "the passkey. A lost device: ask for a new link.",
      ),
      h("p", {}, "The administrator of this site issues keys. They are for programs, and for a look with a test key."),
      h(
        "p",
        {},
        "Do you run this site yourself? Its first start shows a link for the first admin and a key in the terminal. " +
          "Without a terminal, they are in the files ",
        h("code", {}, "first-sign-in"),
        " and ",
        h("code", {}, "first-key"),
        " of the data directory, such as ",
        h("code", {}, "data/first-key"),
        ". The commands ",
        h("code", {}, "notary-orders people invite"),
        " and ",
        h("code", {}, "notary-orders keys issue"),
        " make more.",
      ),
    ),
    storageCard(),
  );
}
