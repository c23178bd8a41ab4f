// The ways to sign in, which the service offers: a passkey, the login of a company, a key.

import { Failure, problem, request } from "../shared/api.js";
import { button, fill, h, labelled } from "../shared/dom.js";
import { acceptByPasskey, obstacle, usePasskey } from "./passkeys.js";

/** The part of the address at which the window of a login has nothing more to do. */
export const LOGIN_WINDOW = "#/signed-in";

/** Returns how someone has signed in, in words. */
export const wayIn = (way) => (way === "passkey" ? "with a passkey" : `with ${way.replace(/^login:/, "")}`);

/** Asks which ways there are. */
export const readWays = async () => (await request("api/session/ways", { isSignIn: true })).body;

/** Begins a login. The browser goes to the provider, in this window or in another, and comes back to `returnTo`. */
async function goToLogin(json, isElsewhere) {
  // The browser permits a window at once, not after an answer.
  const other = isElsewhere ? open("", "notary-orders-login", "popup,width=540,height=720") : null;
  if (isElsewhere && !other) throw new Failure({ status: 0, code: "popup_blocked" });
  try {
    const { body } = await request("api/session/login", { method: "POST", json, isSignIn: true });
    (other ?? window).location.assign(body.url);
  } catch (failure) {
    other?.close();
    throw failure;
  }
}

/** Ends a login with what the provider has sent along. Returns where the page goes on. */
export async function finishLogin({ state, code, issuer, error }) {
  if (error || !code) {
    const isStopped = ["access_denied", "login_required", "interaction_required"].includes(error);
    throw new Failure({ status: 0, code: isStopped ? "login_stopped" : "login_rejected" });
  }
  // The service compares it: a code may be that of another provider.
  const json = { state, code, ...(issuer !== null && { iss: issuer }) };
  const { body } = await request("api/session/login/finish", { method: "POST", json, isSignIn: true });
  return new URL(body.return_to ?? "", location.href).hash;
}

async function useKey(key) {
  const trimmed = key.trim();
  if (!/^[\x21-\x7e]+$/.test(trimmed)) throw new Failure({ status: 401 });
  const headers = { authorization: `Bearer ${trimmed}` };
  await request("api/session/key", { method: "POST", json: {}, headers, isSignIn: true });
}

/**
 * Returns the ways to sign in, for a purpose: `sign_in`, `confirm`, or `accept` with the `token` of an invitation, whose
 * `link` ended so.
 * `isInPlace` keeps the page as it is. `done` is called after the sign-in; `failed` may know better what to do about a
 * failure. `before` is called before a passkey is used, and may refuse it.
 */
export function waysToSignIn(ways, { purpose, token, link, isInPlace, hasKey, passkeyName, before, returnTo, done, failed }) {
  const trouble = h("div", { tabindex: "-1" });
  let isBusy = false;
  /** Does something once at a time, and says what went wrong. */
  const attempt = (run) => async (event) => {
    event.preventDefault();
    if (isBusy) return;
    isBusy = true;
    fill(trouble);
    try {
      await run();
    } catch (failure) {
      if (!(failure instanceof Failure)) throw failure;
      const box = problem(failure);
      box.querySelector("button")?.remove();
      fill(trouble, box);
      failed?.(failure);
    } finally {
      isBusy = false;
    }
  };
  const byPasskey = async () => {
    if (before?.() === false) return;
    await (token ? acceptByPasskey(token, passkeyName()) : usePasskey(purpose));
    await done();
  };
  const byLogin = (provider) => () => {
    const goesTo = `${location.pathname}${isInPlace ? LOGIN_WINDOW : returnTo}`;
    const json = { provider, purpose, return_to: goesTo, ...(token && { token }) };
    return goToLogin(json, isInPlace);
  };
  const why = obstacle(ways, link);
  // The browser would keep no session.
  if (!isSecureContext) return h("div", { class: "ways" }, h("p", {}, why));
  const buttons = [
    !why && button(token ? "Create a passkey" : "Sign in with a passkey", attempt(byPasskey), { class: "primary" }),
    ...ways.logins.map((name, at) =>
      button(token ? `Continue with ${name}` : `Sign in with ${name}`, attempt(byLogin(name)), {
        class: why && !at ? "primary" : undefined,
      }),
    ),
  ].filter(Boolean);
  return h(
    "div",
    { class: "ways" },
    trouble,
    buttons.length > 0 && h("div", { class: "buttons" }, buttons),
    why && h("p", { class: "hint" }, why),
    hasKey && ways.keys && keyForm(isInPlace ? "other-key" : "api-key", buttons.length > 0, attempt, done),
  );
}

/** Returns the form that takes a key for a session. The key is not kept. */
function keyForm(id, isSecond, attempt, done) {
  const input = h("input", { type: "password", required: true, autocomplete: "off", spellcheck: "false" });
  const submit = attempt(async () => {
    try {
      await useKey(input.value);
    } catch (failure) {
      input.focus();
      throw failure;
    }
    input.value = "";
    await done();
  });
  const hint = "Begins with nok_. It is exchanged for a sign-in, and not kept in this browser.";
  return h(
    "form",
    { class: "key", novalidate: true, submit },
    isSecond && h("p", { class: "or" }, "or"),
    labelled(id, "API key", input, hint),
    h("div", { class: "buttons" }, h("button", { class: !isSecond && "primary" }, "Continue")),
  );
}
