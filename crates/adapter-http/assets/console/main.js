// Starts the console: signs in, and shows the views that the user may see.

import { takeArrival } from "./people/arrival.js";
import { Failure, learn, problem, request, session } from "./shared/api.js";
import { accountView } from "./people/account.js";
import { changeOrder, forgetChange } from "./form/change.js";
import { announce, ask, button, fill, h, said, setTitle } from "./shared/dom.js";
import { settle, signInAgain } from "./people/again.js";
import { forgetForm, newOrder } from "./form/form.js";
import { forgetOnce, hasKeyOnce } from "./people/once.js";
import { forgetOrders, order } from "./order/order.js";
import { forgetSearch, orders, showNewest } from "./orders/orders.js";
import { forgetSecret, hasSecret, webhooks } from "./webhooks/webhooks.js";
import { indicator, isUploading } from "./documents/uploads.js";
import { invitationView } from "./people/invitation.js";
import { keyView, signInHelp } from "./key.js";
import { keysView } from "./people/keys.js";
import { News } from "./orders/news.js";
import { peopleView } from "./people/people.js";
import { LOGIN_WINDOW, finishLogin, readWays, waysToSignIn } from "./people/sign_in.js";
import { SIGNED_IN, SIGNED_OUT, hear, tell } from "./people/tabs.js";
import { watchUse } from "./people/use.js";

const NAME = "notary-orders console";
const [header, main] = ["header", "main"].map((id) => document.getElementById(id));

const may = (scope) => () => session.may(scope);
const isAdmin = () => session.isAdmin;

/** The views of the menu: address, name, who may see it, and what builds it. */
const VIEWS = [
  ["#/orders", "Orders", may("orders:read"), orders],
  ["#/new", "New order", may("orders:create"), (address) => newOrder(created, renewForm, address)],
  ["#/webhooks", "Webhooks", may("webhooks:manage"), webhooks],
  ["#/people", "People", isAdmin, peopleView],
  ["#/keys", "Keys", isAdmin, keysView],
];

/** The view of the user: of a person, or of a key. */
const ownView = () => (session.person ? ["#/account", "Your account"] : ["#/key", "Your key"]);

/** The view that is shown, and a sentence for the next one. */
let current = null;
let tidings = null;

/** What went wrong on the way to this page, which the next view says. */
let trouble = null;

/** The invitation that the address has brought, until it is accepted or left. */
let invitation = null;

/** The questions before what is shown only once is forgotten. */
const LOST = {
  lines: ["The secret of a webhook is still shown. It cannot be shown again: store it first, or replace it later."],
  title: "Forget the secret, too?",
  confirm: "Forget it, and sign out",
  danger: true,
};
const LOST_KEY = {
  ...LOST,
  lines: ["A new key is still shown. It cannot be shown again: store it first, or replace it later."],
  title: "Forget the key, too?",
};

/** The orders that have come since the sign-in. */
const news = new News(showNewest);

const permitted = () => VIEWS.filter(([, , mayOpen]) => mayOpen());

/** Returns the view of the address, if the user may see it; otherwise the first that the user may see. */
function viewOf(address) {
  const [, id, isChange] = /^#\/order\/(\d+)(\/change)?$/.exec(address) ?? [];
  if (isChange && session.may("orders:read") && session.may("orders:create")) {
    return changeOrder(id, () => changed(id));
  }
  if (id && session.may("orders:read")) return order(id);
  if (/^#\/(key|account)\b/.test(address)) return session.person ? accountView(address, signedOut) : keyView();
  const views = permitted();
  const asked = VIEWS.find(([it]) => it === address.split("?")[0]);
  const isRefused = asked && !views.includes(asked);
  const view = isRefused ? views[0] : (asked ?? views[0]);
  if (view) return { ...view[3](address), refused: isRefused && asked[1] };
  const text = "This key may do nothing that this page can do. Ask your administrator for another key.";
  return { title: "No views", element: h("p", { class: "card" }, text) };
}

/** Takes what the address brings, also in a page that is open already. Another view leaves an invitation. */
function follow() {
  const arrival = takeArrival();
  invitation = arrival?.token === undefined ? null : arrival;
  show();
}

function show() {
  current?.dispose?.();
  news.follow();
  current = viewNow();
  const test = session.terms?.is_test && h(
    "p",
    { class: "test", role: "note" },
    h("strong", {}, "Test key"),
    " You see test orders only. They cause no mails.",
  );
  const toDo = session.person
    ? "Only an admin of your office may."
    : "“Your key” says what it may do. Ask your administrator for more.";
  const refused = current.refused && h(
    "p",
    { class: "warning", role: "note" },
    `${session.person ? "You" : "This key"} may not open “${current.refused}”. ${toDo}`,
  );
  const heading = h("h1", { tabindex: "-1" }, current.title);
  const sentence = tidings && h("p", { class: "news" }, tidings);
  const failed = trouble && problem(trouble);
  setTitle(`${session.terms?.is_test ? "[Test] " : ""}${current.title} – ${NAME}`);
  fill(header, ...menu());
  fill(main, test, heading, refused, failed, sentence, current.element);
  if (sentence) announce(sentence.textContent);
  tidings = trouble = null;
  scrollTo(0, 0);
  heading.focus({ preventScroll: true });
}

function viewNow() {
  if (location.hash === LOGIN_WINDOW && session.terms) return doneView();
  if (invitation) return invitationView(invitation, accepted, signInView);
  return session.terms ? viewOf(location.hash) : signInView();
}

/** Goes on as the person who has accepted the invitation. */
async function accepted(address, sentence) {
  history.replaceState(null, "", `${location.pathname}${address}`);
  tidings = sentence;
  const before = current;
  await enter();
  if (current === before) show();
}

/** Returns the view of the window of a login, which has nothing more to do. */
function doneView() {
  const text = "Go back to the other window. This one can be closed.";
  const stay = button("Go on here", () => (location.hash = "#/orders"));
  return { title: "You are signed in", element: h("div", { class: "card" }, h("p", {}, text), stay) };
}

function menu() {
  const brand = h("span", { class: "brand" }, "notary-orders");
  if (!session.terms || location.hash === LOGIN_WINDOW) return [brand];
  const { is_test: isTest, signing_service_id: service } = session.terms;
  const link = ([address, name]) => {
    const isCurrent = current.title === name;
    return h("a", { href: address, "aria-current": isCurrent && "page" }, name);
  };
  const { client_name: client, signing_service_name: name } = session.terms;
  const party = session.isService ? (name ?? `Signing service ${service}`) : (client ?? "Client");
  const kind = isTest && h("span", { class: "badge", "data-status": "test" }, "Test");
  const user = session.person && [said(session.person.name), h("span", { "aria-hidden": "true" }, "·")];
  return [
    brand,
    h("nav", { "aria-label": "Views" }, permitted().map(link)),
    indicator,
    h("span", { class: "party" }, user, said(party), kind),
    link(ownView()),
    button("Sign out", signOut, { id: "sign-out" }),
  ];
}

async function signOut() {
  if (hasSecret() && !(await ask(LOST))) return;
  if (hasKeyOnce() && !(await ask(LOST_KEY))) return;
  try {
    await request("api/session", { method: "DELETE", isSignIn: true });
  } catch (failure) {
    if (!(failure instanceof Failure)) throw failure;
    document.querySelector("main > .problem")?.remove();
    main.prepend(problem(failure));
    return;
  }
  signedOut();
}

/** Leaves nothing of the one who was signed in, in any tab. */
function signedOut(sentence) {
  tell(SIGNED_OUT);
  leave();
  if (sentence) main.prepend(h("p", { class: "news", role: "status" }, sentence));
}

function leave() {
  forgetAll();
  Object.assign(session, { own: null, terms: null });
  history.replaceState(null, "", location.pathname);
  // A document or a question may be open.
  for (const dialog of document.querySelectorAll("dialog")) dialog.close();
  show();
}

/** Forgets what the user has begun, and stops uploads. Drafts stay in the browser. */
function forgetAll() {
  forgetChange();
  forgetForm();
  forgetSecret();
  forgetOnce();
  forgetSearch();
  forgetOrders();
}

/** Learns who has signed in, in this tab or another, and goes on. Returns whether anyone has. */
async function enter() {
  const found = await learn();
  if (!found) throw new Failure({ status: 0, code: "not_kept" });
  tell(SIGNED_IN);
  invitation = null;
  adopt(found);
}

/** Takes a session. What its user has begun stays if it is of the same side, and goes on if it is the same user. */
function adopt({ own, terms }) {
  const before = { own: session.own, terms: session.terms };
  const isFirst = !before.terms;
  const isSame = !isFirst && userOf(own, terms) === userOf(before.own, before.terms);
  if (!isFirst && sideOf(terms) !== sideOf(before.terms)) forgetAll();
  session.own = own;
  // Lists know by this object that they are of the same user.
  session.terms = isSame ? Object.assign(before.terms, terms) : terms;
  // What was put off is asked for anew.
  const wasPutOff = settle(isSame);
  if (isSame && (current.isForm || !wasPutOff)) fill(header, ...menu());
  else show();
}

const sideOf = ({ party, client_id: client, signing_service_id: service, is_test: isTest }) =>
  JSON.stringify([party, client ?? service, isTest]);

const userOf = (own, terms) =>
  JSON.stringify([sideOf(terms), own.person?.id ?? null, terms.scopes, terms.signing_service_id]);

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

function signInView() {
  const place = h("div", { class: "card sign-in" }, h("p", {}, "Loading…"));
  const view = { title: "Sign in", element: h("div", {}, place, signInHelp()) };
  const fillPlace = async () => {
    try {
      const options = { purpose: "sign_in", hasKey: true, done: enter, returnTo: location.hash };
      fill(place, waysToSignIn(await readWays(), options));
    } catch (failure) {
      fill(place, problem(failure), button("Load the page again", () => location.reload()));
    }
    // The focus of a user who is elsewhere already stays there.
    if (view === current && document.activeElement === main.querySelector("h1")) {
      place.querySelector("button.primary, input, button")?.focus({ preventScroll: true });
    }
  };
  fillPlace();
  return view;
}

/** Learns of a sign-in of another tab. */
async function recheck() {
  const found = await learn().catch(() => null);
  if (found) adopt(found);
}

session.again = signInAgain(enter);
session.renew = recheck;
hear(SIGNED_IN, recheck);
hear(SIGNED_OUT, () => session.terms && leave());
// The user has used Back: another tab may have signed out since.
addEventListener("pageshow", async ({ persisted }) => {
  if (!persisted || !session.terms) return;
  const found = await learn().catch(() => null);
  if (found) adopt(found);
  else leave();
});
watchUse(isUploading, async () => {
  await request("api/session", { method: "DELETE", isSignIn: true }).catch(() => {});
  session.again("sign_in", true).catch(() => {});
});

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", follow);

const arrival = takeArrival();
if (arrival?.token !== undefined) invitation = arrival;
let address = null;
try {
  if (arrival?.login) {
    address = await finishLogin(arrival.login);
    history.replaceState(null, "", `${location.pathname}${address}`);
  }
} catch (failure) {
  if (!(failure instanceof Failure)) throw failure;
  trouble = failure;
}
try {
  const found = await learn();
  if (found) adopt(found);
  else if (address !== null) trouble = new Failure({ status: 0, code: "not_kept" });
  if (found && address !== null) tell(SIGNED_IN);
  if (found && address === LOGIN_WINDOW) close();
} catch (failure) {
  if (!(failure instanceof Failure)) throw failure;
  trouble ??= failure;
}
if (!current) show();
