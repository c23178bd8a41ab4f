// Calls the public API in the session of the user, which a cookie names, and explains its problems.

import { button, fill, h, said } from "./dom.js";
import { fieldOf } from "./fields.js";
import { inTrade } from "./trade.js";

/** Where the service is: above the folder of this file. */
export const BASE = new URL("../..", import.meta.url);

/**
 * Who is signed in, what they may do, and their session: all `null` before the sign-in. No secret is here. `again`
 * asks to sign in again in place, and returns whether the same person goes on.
 */
export const session = {
  terms: null,
  own: null,
  again: async () => false,
  /** Learns anew who is signed in: a name or a role has changed. */
  renew: async () => {},
  may(scope) {
    return this.terms?.scopes.includes(scope) ?? false;
  },
  get isService() {
    return this.terms?.party === "service";
  },
  /** The person; `null` for a session of a key. */
  get person() {
    return this.own?.person ?? null;
  },
  get isAdmin() {
    return this.person?.role === "admin";
  },
};

/** Learns who is signed in; `null` if nobody is. */
export async function learn() {
  try {
    const own = (await request("api/session", { isSignIn: true })).body;
    return { own, terms: (await request("api/key", { isSignIn: true })).body };
  } catch (failure) {
    if (failure.status === 401) return null;
    throw failure;
  }
}

/** A number that is sent as its user wrote it: identifiers have up to 19 digits. */
export class Digits {
  constructor(text) {
    this.text = text;
  }
}

/** Returns JSON of a value that may have `Digits`. */
export function stringify(value) {
  if (value instanceof Digits) return value.text;
  if (Array.isArray(value)) return `[${value.map(stringify)}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const members = Object.entries(value).map(([name, it]) => `${JSON.stringify(name)}:${stringify(it)}`);
  return `{${members}}`;
}

/** Reads JSON. A large integer stays a text where the browser knows its digits. */
function parse(text) {
  const keepDigits = (_, value, context) =>
    Number.isInteger(value) && !Number.isSafeInteger(value) ? (context?.source ?? value) : value;
  try {
    return JSON.parse(text, keepDigits);
  } catch {
    return null;
  }
}

const target = (path) => new URL(path, BASE);

/** What each failure that another sign-in mends is for. */
const purposeOf = ({ status, code }) =>
  status === 401 ? "sign_in" : status === 403 && code === "sign_in_again" ? "confirm" : null;

/** Sends something, and once more after each sign-in in place that it needs. */
async function signedIn(send) {
  for (;;) {
    try {
      return await send();
    } catch (failure) {
      const purpose = purposeOf(failure);
      // A question that was put off is not asked twice.
      if (!purpose || failure.isPutOff) throw failure;
      if (await session.again(purpose)) continue;
      failure.isPutOff = true;
      throw failure;
    }
  }
}

/**
 * Sends a request. `json` is its body. Returns the status, the headers and the body of the answer,
 * which is a blob if `blob` is set. Throws a `Failure` for every other answer than 2xx and 304. If the session has
 * ended, the user signs in again in place, and the request is repeated; not one that `isSignIn`.
 */
export function request(path, { isSignIn = false, ...options } = {}) {
  return isSignIn ? sendInTime(path, options) : signedIn(() => sendInTime(path, options));
}

/** How often a read is repeated that came too early, and the longest wait before it in seconds. */
const [REPEATS, LONGEST_WAIT] = [5, 10];

/** Sends a request. A read that came too early waits as long as the service says: a view begins with several at once. */
async function sendInTime(path, options, repeats = REPEATS) {
  try {
    return await send(path, options);
  } catch (failure) {
    const isRead = (options.method ?? "GET") === "GET";
    const { status, retryAfter } = failure;
    const isEarly = status === 429 && retryAfter > 0 && retryAfter <= LONGEST_WAIT;
    if (!isRead || !isEarly || repeats === 0) throw failure;
    await new Promise((resolve) => setTimeout(resolve, retryAfter * 1000));
    return sendInTime(path, options, repeats - 1);
  }
}

async function send(path, { method = "GET", json, headers = {}, blob = false }) {
  const all = { ...headers };
  if (json !== undefined) all["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(target(path), {
      method,
      headers: all,
      body: json === undefined ? undefined : stringify(json),
      // Orders stay out of the cache of a shared computer.
      cache: "no-store",
      credentials: "same-origin",
      redirect: "error",
    });
    const { status, ok } = response;
    const answer = { status, headers: response.headers };
    if (blob && ok) return { ...answer, body: await response.blob() };
    const body = parse(await response.text());
    if (ok || status === 304) return { ...answer, body };
    throw Failure.of(status, body, response.headers);
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw new Failure({ status: 0, isRepeatable: method === "GET", isKeyed: "idempotency-key" in headers });
  }
}

/**
 * Sends a form with an idempotency key. `progress` gets the bytes that have been sent, and all. Returns a promise of the
 * answer, and a function that stops the upload.
 */
export function upload(path, form, headers, progress) {
  let call = null;
  let isStopped = false;
  const once = async () => {
    // A session that has ended is known before minutes of sending, whose answer a browser may not read.
    await request("api/session");
    if (isStopped) throw new Failure({ status: 0, code: "stopped" });
    call = new XMLHttpRequest();
    return sendForm(call, path, form, headers, progress);
  };
  const stop = () => {
    isStopped = true;
    call?.abort();
  };
  return { answer: signedIn(once), stop };
}

function sendForm(call, path, form, headers, progress) {
  return new Promise((resolve, reject) => {
    call.open("POST", target(path));
    for (const [name, value] of Object.entries(headers)) call.setRequestHeader(name, value);
    call.upload.onprogress = ({ loaded, total }) => progress(loaded, total);
    call.onload = () => {
      const received = new Headers();
      for (const name of ["retry-after", "www-authenticate", "idempotency-replayed"]) {
        const value = call.getResponseHeader(name);
        if (value !== null) received.set(name, value);
      }
      const body = parse(call.responseText);
      if (call.status === 201) resolve({ status: call.status, headers: received, body });
      else reject(Failure.of(call.status, body, received));
    };
    call.onerror = () => reject(new Failure({ status: 0, isKeyed: true }));
    call.onabort = () => reject(new Failure({ status: 0, code: "stopped" }));
    call.send(form);
  });
}

/** Idempotency keys: one for each content, so that a repeat of the same content is harmless. */
export class Attempts {
  #keys = new Map();

  /** Returns the header for a content. */
  header(content) {
    if (!this.#keys.has(content)) {
      const bytes = crypto.getRandomValues(new Uint8Array(16));
      const key = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
      this.#keys.set(content, key);
    }
    return { "idempotency-key": `"${this.#keys.get(content)}"` };
  }

  /** Forgets the keys if the service has one of them with another content. */
  learn({ status }) {
    if (status === 422) this.#keys.clear();
  }
}

/** Returns the address of the next page of an answer. */
export const nextPage = (headers) => /<([^>]*)>; *rel="next"/.exec(headers.get("link") ?? "")?.[1];

/** What each scope lets its key do. */
export const RIGHTS = {
  "orders:create": "create, change and cancel orders, and add documents",
  "orders:read": "see orders and their documents",
  "orders:update": "carry out orders: status, notary, signed documents",
  "webhooks:manage": "manage webhooks",
};

const wait = (seconds) =>
  seconds > 7200 ? `Try again in ${Math.ceil(seconds / 3600)} hours.`
  : seconds ? `Try again in ${seconds} ${seconds === 1 ? "second" : "seconds"}.` : "Try again in a moment.";

/** The sentence for a problem, by its code, or else by its status. */
const SENTENCES = {
  stopped: () =>
    "You stopped the upload. It may have arrived. Search for it before you change anything; the same " +
    "content is stored only once.",
  file_wrong: () => "A document cannot be sent. Remove it, or choose another one.",
  file_changed: () => "A file has changed or moved since you chose it. Remove it, and choose it again.",
  0: ({ isRepeatable, isKeyed }) => {
    if (isRepeatable) return "The service did not answer. Check your connection, and try again.";
    return isKeyed
      ? "The service did not answer. Check your connection, and try again. What you sent may have " +
          "arrived; the same content is stored only once."
      : "The service did not answer. Check your connection. What you sent may have arrived: load the " +
          "page again, and look at the list first.";
  },
  400: () => "The service cannot accept this. Correct it, and send it again.",
  401: () =>
    "This key does not work: it is unknown, expired or revoked. Use another key, or ask the " +
    "administrator for one.",
  session_ended: () => "You are not signed in any more. Sign in again. What you have entered stays here.",
  not_sent: () =>
    "Another user has signed in, so nothing was sent. Look at the entries, and send them again if they are yours.",
  not_kept: () =>
    "The browser has not kept the sign-in. Allow cookies of this site, and open it by https.",
  403: ({ scope }) => {
    if (session.person) return "You may not do this. Ask an admin of your office.";
    return scope
      ? `This key may not do this: it lacks the right to ${RIGHTS[scope] ?? scope}. Ask your administrator for it.`
      : "This key may not do this. Ask your administrator for the right key.";
  },
  not_admin: () => "Only an admin of your office may do this.",
  key_cannot_manage: () => "A key manages no people and no keys. Sign in as a person.",
  sign_in_again: () => "Nothing was changed: sign in again first, because your sign-in is more than five minutes old.",
  cross_site: () =>
    "The service did not take this for a request of its own page, so nothing was changed. If it happens again, tell " +
    "your administrator: a proxy may change the headers.",
  keys_disabled: () => "This site takes no keys here. Sign in as a person, or ask your administrator for an invitation.",
  404: () =>
    session.person
      ? "There is no such item, or you cannot see it. Check the number."
      : "The key cannot see this item, or it does not exist. Check the number. Test keys see test orders " +
        "only, and live keys live ones.",
  408: () => "The upload was too slow. Send it again; no second order is created.",
  409: () => "This does not fit the present state. Load the page again, then try again.",
  duplicate_order: ({ retryAfter }) =>
    "An order with this file number has just been created. Search the orders for it first. If you " +
    `do need a second order: ${wait(retryAfter).toLowerCase()}`,
  idempotency_in_flight: ({ retryAfter }) =>
    `Your first click is still being worked on. ${wait(retryAfter)} It creates no second order.`,
  replay_in_progress: ({ retryAfter }) =>
    `Another replay of this webhook is in progress. ${wait(retryAfter)}`,
  order_cancelled: () => "The order is cancelled, so it does not change any more.",
  order_closed: ({ detail }) => detail,
  order_on_hold: ({ detail }) => detail,
  too_many_notes: ({ detail }) => detail,
  too_many_addresses: ({ detail }) => detail,
  webhook_disabled: () => "The webhook is disabled, so it gets no test event. Enable it first.",
  withdrawn: () => "The side that uploaded this document has withdrawn it. Load the page again.",
  invitation_used: () =>
    "This invitation is used. If it was you, sign in. If not, tell the person who sent it at once, and ask for a new one.",
  invitation_expired: () => "This invitation is older than 7 days. Ask the person who sent it for a new one.",
  invitation_withdrawn: () =>
    "This invitation was withdrawn. A newer one may have taken its place: use the newest link, or ask for another.",
  invitation_unknown: () => "This link is not complete. Copy the whole link, or ask the person who sent it for a new one.",
  person_disabled: () => "Your access is disabled. Ask an admin of your office.",
  passkey_stopped: () =>
    "The passkey was not used: the question of the browser was closed, or it took too long. Try again.",
  passkey_here: () => "This device has a passkey of yours already. Sign in with it.",
  passkey_failed: ({ detail }) => `The browser could not use a passkey (${detail}). Try again, or use another device.`,
  passkey_rejected: () =>
    "The service does not know this passkey, or could not check it. Try another one, or ask an admin of your office for a " +
    "new invitation.",
  no_ceremony: () => "This took too long, or was begun in another browser. Try again.",
  login_rejected: () => "The login was not accepted. Try again, or ask your administrator.",
  login_stopped: () => "The login was stopped before its end. Try again.",
  unknown_person: () =>
    "Nobody here has this login or passkey. Open the link of your invitation first, and accept it with it. An admin of " +
    "your office can send you a new one.",
  provider_unavailable: () => "The login of your company does not answer. Try again in a moment, or use a passkey.",
  unknown_provider: () => "This login is not set up here any more. Load the page again.",
  other_person: () => "That is the sign-in of another person. Use your own, or sign out first.",
  popup_blocked: () => "The browser did not open the window of the login. Allow it, and try again.",
  insecure_origin: () => "Passkeys do not work at this address. Open the page with https and the name of the site.",
  no_session: () => "Sign in first.",
  key_not_valid: () => "This key is revoked or expired already. Make a new one.",
  last_admin: () => "This is the last admin who can sign in. Make another person an admin first.",
  name_in_use: () => "Another person or key of your office has this name. Add something that tells the two apart.",
  last_method: () => "This is the last way to sign in. Add another passkey first.",
  too_many_passkeys: () => "There are too many passkeys. Remove one that is not used any more first.",
  too_many_invitations: () => "There are too many invitations. Withdraw one, or try again tomorrow.",
  method_in_use: () => "This passkey or login belongs to another person. Use another one.",
  410: () =>
    "The administrator has erased this order. Its details and documents are gone, and " +
    "there is nothing left to do.",
  never_current: ({ retryAfter }) =>
    "The order was another version each of three times, so nothing was saved. Another program keeps " +
    "changing it, or a proxy changes the headers ETag or If-Match. Ask your administrator. " +
    wait(retryAfter),
  412: () =>
    "Another user has changed the order since you opened it. Nothing was saved. This is the order " +
    "now. Your entries stay: look at both, then try again.",
  413: () => "This is too large. Send smaller or fewer files, or shorten the texts.",
  422: () => "The content changed after it was sent. Send it again.",
  429: ({ retryAfter, policies = [] }) =>
    policies.includes("issued-keys")
      ? `Your office has made as many keys as it may within a day. ${wait(retryAfter)}`
      : `Too many requests${session.terms && !session.person ? " with this key" : ""}. ${wait(retryAfter)}`,
  501: () => "Webhooks are not set up here (--secrets-key). Ask your administrator.",
  503: ({ retryAfter }) =>
    `The service is busy, or a part of it is down. Your entries stay here. ${wait(retryAfter)}`,
  unreadable_order: () =>
    "The record of this order cannot be read. Give its number to your administrator.",
  500: () => "The service has a fault. Try again later, and give your administrator the request number.",
};

/** Problems whose `detail` says more than the sentence. That of a 400 with errors only counts them. */
const DETAILED = [400, 403, 413, 501];

/** An answer that is no success; the status is 0 if there was none. */
export class Failure extends Error {
  constructor({ status, code, errors = [], retryAfter = 0, ...more }) {
    super(code ?? `status ${status}`);
    Object.assign(this, { status, code, errors, retryAfter, ...more });
  }

  static of(status, body, headers) {
    const challenge = headers.get("www-authenticate") ?? "";
    return new Failure({
      status,
      code: body?.code,
      detail: body?.detail,
      errors: body?.errors,
      policies: body?.["violated-policies"],
      requestId: body?.request_id,
      retryAfter: Number(headers.get("retry-after")) || 0,
      scope: /scope="([^"]*)"/.exec(challenge)?.[1],
    });
  }

  /** Returns a sentence that helps. */
  get sentence() {
    const general = this.status >= 500 ? SENTENCES[500] : SENTENCES[400];
    const sentence = (SENTENCES[this.code] ?? SENTENCES[this.status] ?? general)(this);
    const isKnown = this.code in SENTENCES;
    const isDetailed = DETAILED.includes(this.status) && !isKnown && !this.scope && !this.errors.length;
    const detail = isDetailed ? this.detail : null;
    return detail ? `${sentence} ${detail}` : sentence;
  }
}

/** Names of entries outside the form of an order. */
const NAMES = {
  "/url": "URL", "/description": "Description", "/events": "Events", "/since": "From", "/until": "Until",
  "/order_status": "Status", "/notary_id": "Notary: number", "/notary/name": "Notary: name",
  "/notary/phone": "Notary: phone", "/notary/email": "Notary: e-mail", "/reason": "Reason",
  "/text": "Note", "/name": "Name", "/email": "E-mail", "/role": "Role", "/scopes": "May", "/expires_in_days": "Days until it expires", "/credential": "Passkey", "/token": "Link", "/replaces": "Replaced document", search: "Search", order_status: "Status", notary: "Notary",
  client: "Client", signing_service_id: "Signing service",
  signing_date_from: "Signing from", signing_date_to: "Signing until",
};

/** Returns what the user calls the place of an error. `file` is the name of a rejected file. */
function nameOf({ file, pointer, parameter }) {
  const label = fieldOf(pointer)?.label;
  return file ?? NAMES[pointer ?? parameter] ?? label ?? pointer ?? parameter;
}

/** Returns the box that explains a problem. A user whose session has ended can sign in in place. */
export function problem(failure) {
  if (!(failure instanceof Failure)) throw failure;
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("p", {}, said(failure.sentence)),
    [0, 400].includes(failure.status) &&
      failure.errors.length > 0 &&
      h("ul", {}, failure.errors.map((it) => h("li", {}, said(`${nameOf(it)}: ${inTrade(it.detail)}`)))),
    failure.requestId && h("p", { class: "hint" }, "Request number ", h("code", {}, failure.requestId)),
    failure.status === 401 && session.terms && button("Sign in again", () => session.again("sign_in", true).catch(() => {})),
  );
}

/** The place of a problem in what refreshes itself. One that is shown already is not said again. */
export class ProblemBox {
  element = h("div");
  #sentence;

  /** Shows a problem; `null` shows none. */
  show(failure) {
    const box = failure && problem(failure);
    if (failure?.sentence === this.#sentence) return;
    this.#sentence = failure?.sentence;
    fill(this.element, box);
  }
}
