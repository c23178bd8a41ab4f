// Starts the console: signs in, and shows the views that the key may see.

import { Failure, problem, session, signIn, signOut } from "./shared/api.js";
import { changeOrder, forgetChange } from "./form/change.js";
import { announce, ask, button, fill, h, labelled, said, setTitle } from "./shared/dom.js";
import { forgetForm, newOrder } from "./form/form.js";
import { keyView, signInHelp } from "./key.js";
import { forgetOrders, order } from "./order/order.js";
import { News } from "./orders/news.js";
import { forgetSearch, orders, showNewest } from "./orders/orders.js";
import { indicator } from "./documents/uploads.js";
import { forgetSecret, hasSecret, webhooks } from "./webhooks/webhooks.js";

const NAME = "notary-orders console";
const [header, main] = ["header", "main"].map((id) => document.getElementById(id));

/** The views of the menu: address, name, scope, and what builds it. */
const VIEWS = [
  ["#/orders", "Orders", "orders:read", orders],
  ["#/new", "New order", "orders:create", (address) => newOrder(created, renewForm, address)],
  ["#/webhooks", "Webhooks", "webhooks:manage", webhooks],
];

/** The view that is shown, and a sentence for the next one. */
let current = null;
let tidings = null;

/** The question before the secret of a webhook is forgotten with the key. */
const LOST_SECRET = {
  title: "Forget the secret, too?",
  lines: ["The secret of a webhook is still shown. It cannot be shown again: store it first, or replace it later."],
  confirm: "Forget both",
  danger: true,
};

/** The orders that have come since the sign-in. */
const news = new News(showNewest);

const permitted = () => VIEWS.filter(([, , scope]) => session.may(scope));

/** Returns the view of the address, if the key may see it; otherwise the first that it may see. */
function viewOf(address) {
  const [, id, isChange] = /^#\/order\/(\d+)(\/change)?$/.exec(address) ?? [];
  if (isChange && session.may("orders:read") && session.may("orders:create")) {
    return changeOrder(id, () => changed(id));
  }
  if (id && session.may("orders:read")) return order(id);
  if (address === "#/key") return keyView();
  const views = permitted();
  const asked = VIEWS.find(([it]) => it === address.split("?")[0]);
  const isRefused = asked && !views.includes(asked);
  const view = isRefused ? views[0] : (asked ?? views[0]);
  if (view) return { ...view[3](address), refused: isRefused && asked[1] };
  const text = "This key may do nothing that this page can do. Ask your administrator for another key.";
  return { title: "No views", element: h("p", { class: "card" }, text) };
}

function show() {
  current?.dispose?.();
  news.follow();
  current = session.terms ? viewOf(location.hash) : signInView();
  const test = session.terms?.is_test && h(
    "p",
    { class: "test", role: "note" },
    h("strong", {}, "Test key"),
    " You see test orders only. They cause no mails.",
  );
  const refused = current.refused && h(
    "p",
    { class: "warning", role: "note" },
    `This key may not open “${current.refused}”. “Your key” says what it may do. Ask your administrator for more.`,
  );
  const heading = h("h1", { tabindex: "-1" }, current.title);
  const sentence = tidings && h("p", { class: "news" }, tidings);
  setTitle(`${session.terms?.is_test ? "[Test] " : ""}${current.title} – ${NAME}`);
  fill(header, ...menu());
  fill(main, test, heading, refused, sentence, current.element);
  if (sentence) announce(sentence.textContent);
  tidings = null;
  scrollTo(0, 0);
  const first = session.terms ? heading : main.querySelector("input");
  first.focus({ preventScroll: true });
}

function menu() {
  const brand = h("span", { class: "brand" }, "notary-orders");
  if (!session.terms) return [brand];
  const { is_test: isTest, signing_service_id: service } = session.terms;
  const link = ([address, name]) => {
    const isCurrent = current.title === name;
    return h("a", { href: address, "aria-current": isCurrent && "page" }, name);
  };
  const { client_name: client, signing_service_name: name } = session.terms;
  const party = session.isService ? (name ?? `Signing service ${service}`) : (client ?? "Client");
  const kind = isTest && h("span", { class: "badge", "data-status": "test" }, "Test");
  return [
    brand,
    h("nav", { "aria-label": "Views" }, permitted().map(link)),
    indicator,
    h("span", { class: "party" }, said(party), kind),
    h("a", { href: "#/key", "aria-current": current.title === "Your key" && "page" }, "Your key"),
    button("Forget the key", forget),
  ];
}

async function forget() {
  if (hasSecret() && !(await ask(LOST_SECRET))) return;
  signOut();
  forgetChange();
  forgetForm();
  forgetSecret();
  forgetSearch();
  forgetOrders();
  history.replaceState(null, "", location.pathname);
  show();
}

/** Shows an order that was created, or says its number if the key may not read it. */
function created(record, isRepeat) {
  tidings = isRepeat
    ? `Order ${record.order_id} was created by your first click.`
    : `Order ${record.order_id} is created.`;
  const address = session.may("orders:read") ? `#/order/${record.order_id}` : "#/new";
  if (location.hash === address) show();
  else location.hash = address;
}

/** Shows the view again, below a sentence. */
function renewForm(sentence) {
  tidings = sentence;
  show();
}

/** Shows an order that was changed. The browser's Back does not return to the form. */
function changed(id) {
  tidings = "The order is changed.";
  location.replace(`#/order/${id}`);
}

/** Returns a form that asks for a key. `done` is called with a key that works. */
function keyForm(id, done) {
  const input = h("input", { type: "password", required: true, autocomplete: "off", spellcheck: "false" });
  const trouble = h("div");
  const submit = async (event) => {
    event.preventDefault();
    fill(trouble);
    try {
      await signIn(input.value);
      done();
    } catch (failure) {
      if (!(failure instanceof Failure)) throw failure;
      const box = problem(failure);
      box.querySelector("button")?.remove();
      fill(trouble, box);
      input.focus();
    }
  };
  const hint = "Begins with nok_. It stays in this tab, and is forgotten when you close it.";
  return h(
    "form",
    { class: "card key", novalidate: true, submit },
    trouble,
    labelled(id, "API key", input, hint),
    h("div", { class: "buttons" }, h("button", { class: "primary" }, "Continue")),
  );
}

function signInView() {
  return { title: "Use your API key", element: h("div", {}, keyForm("api-key", show), signInHelp()) };
}

/** Asks for another key in place. What the user has entered stays, unless the key is of another kind. */
session.replace = async () => {
  const before = session.terms;
  const dialog = h("dialog", { "aria-label": "Use another key" });
  const done = () => {
    dialog.close();
    const kind = (terms) => JSON.stringify([terms?.party, terms?.scopes, terms?.is_test, terms?.signing_service_id]);
    if (kind(before) !== kind(session.terms) || !current.isForm) show();
  };
  dialog.append(keyForm("other-key", done), button("Back", () => dialog.close()));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
};

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", show);

if (session.key) {
  try {
    await signIn(session.key);
  } catch (failure) {
    if (failure.status === 401) signOut();
    show();
    main.append(problem(failure), button("Load the page again", () => location.reload()));
  }
}
if (!current) show();
