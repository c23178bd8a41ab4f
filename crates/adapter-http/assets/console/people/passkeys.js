// Passkeys: whether this page can use them, and what the browser does with them (WebAuthn level 3, section 5.1).

import { Failure, request } from "../shared/api.js";
import { h } from "../shared/dom.js";

/**
 * Returns why this page cannot use passkeys, and what to do; `null` if it can. `hash` is what the address had at its end:
 * the link to another name of this machine has it again.
 */
export function obstacle({ passkeys }, hash = location.hash) {
  if (!isSecureContext) {
    return (
      "This address begins with http, so the browser keeps neither passkeys nor a sign-in here. Open the page with https. " +
      "On the computer of the service itself, the name localhost works, too."
    );
  }
  if (location.hostname === "127.0.0.1" || location.hostname === "[::1]") {
    const other = new URL(location.href);
    [other.hostname, other.hash] = ["localhost", hash];
    return ["Passkeys need a name in the address: open this page as ", h("a", { href: other.href }, other.host), "."];
  }
  if (!passkeys) {
    return "This site has passkeys at another address only. Ask your administrator for it.";
  }
  if (!window.PublicKeyCredential?.parseRequestOptionsFromJSON) {
    return "This browser is too old for passkeys. Update it, or use another one.";
  }
  return null;
}

/** The problems of the errors that browsers tell apart. */
const FAULTS = {
  NotAllowedError: "passkey_stopped", AbortError: "passkey_stopped", InvalidStateError: "passkey_here",
};

/** Returns what the browser has made, as JSON. */
async function made(run) {
  try {
    return (await run()).toJSON();
  } catch (error) {
    throw new Failure({ status: 0, code: FAULTS[error.name] ?? "passkey_failed", detail: error.name });
  }
}

const create = (options) =>
  made(() => navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options) }));

const get = (options) =>
  made(() => navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options) }));

const post = async (path, json, isSignIn) => (await request(path, { method: "POST", json, isSignIn })).body;

/** Signs in with a passkey, for a purpose: `sign_in` or `confirm`. */
export async function usePasskey(purpose) {
  const { publicKey } = await post("api/session/passkey", { purpose }, true);
  await post("api/session/passkey/finish", { credential: await get(publicKey) }, true);
}

/** Accepts an invitation with a new passkey. */
export async function acceptByPasskey(token, name) {
  const { publicKey } = await post("api/session/passkey", { purpose: "accept", token }, true);
  await post("api/session/passkey/finish", { credential: await create(publicKey), name }, true);
}

/** Adds a passkey to the person who is signed in. */
export async function addPasskey(name) {
  const { publicKey } = await post("api/people/me/passkeys", {});
  await post("api/people/me/passkeys/finish", { credential: await create(publicKey), name });
}

/** Returns a name for a passkey of this device. */
export function deviceName() {
  const { userAgent } = navigator;
  const devices = [
    ["iPhone", /iPhone/], ["iPad", /iPad/], ["Android", /Android/], ["Mac", /Macintosh/], ["Windows", /Windows/],
    ["Chromebook", /CrOS/], ["Linux", /Linux/],
  ];
  return devices.find(([, pattern]) => pattern.test(userAgent))?.[0] ?? "Passkey";
}

/** The longest name of a person or a passkey. */
export const MAX_NAME = 100;
