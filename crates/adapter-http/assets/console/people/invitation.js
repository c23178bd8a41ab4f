// An invitation: whom it is for, and the button that accepts it. To look at it uses nothing up.

import { Failure, problem, request, session } from "../shared/api.js";
import { card, fill, h, instant, labelled, said } from "../shared/dom.js";
import { MAX_NAME, deviceName, obstacle } from "./passkeys.js";
import { readWays, waysToSignIn } from "./sign_in.js";

/** What the roles are, in words. */
export const ROLES = {
  admin: "Admin: works with orders, and manages the people and the keys of the office",
  member: "Member: works with orders",
};

/** What the sides do, in words. */
const SIDES = { client: "Client: orders signings", service: "Signing service: carries signings out" };

/**
 * Returns the view. `accepted` gets the address where the page goes on, and a sentence. `signIn` returns the view of the
 * sign-in, which stands below an invitation that cannot be accepted.
 */
export function invitationView({ token, isWelcome }, accepted, signIn) {
  const element = h("div", {}, h("p", {}, "Loading…"));
  const load = async () => {
    try {
      if (!token) throw new Failure({ status: 404, code: "invitation_unknown" });
      const sent = { method: "POST", json: { token }, isSignIn: true };
      const [{ body }, ways] = await Promise.all([request("api/session/invitation", sent), readWays()]);
      fill(element, session.terms && warning(), acceptance(body, ways, { token, isWelcome, accepted }));
    } catch (failure) {
      if (!(failure instanceof Failure)) throw failure;
      const goOn = h("p", {}, h("a", { class: "button", href: "#/" }, "Go on without it"));
      fill(element, problem(failure), session.terms ? goOn : failure.status > 0 && signIn().element);
    }
  };
  load();
  return { title: isWelcome ? "Welcome" : "Your invitation", element };
}

function warning() {
  const { person, terms } = session;
  const who = person ? person.name : `the key ${terms.name}`;
  return h("p", { class: "warning", role: "note" }, "This browser is signed in as ", said(who), ". To accept ends that here.");
}

function acceptance(invited, ways, { token, isWelcome, accepted }) {
  const { name, role, side, expires_at: end, is_active: isActive } = invited;
  const row = ([label, ...value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value));
  const facts = [
    !isWelcome && ["Name", said(name)],
    ["Side", SIDES[side]],
    ["Role", ROLES[role]],
    ["Valid until", instant(end)],
  ].filter(Boolean);
  const own = isWelcome ? new Names() : null;
  const canUse = !obstacle(ways);
  const label = h("input", { maxlength: MAX_NAME, dir: "auto", value: deviceName() });
  const finish = async () => {
    const isNamed = await own?.save();
    const address = isNamed === false ? "#/account?welcome" : "";
    await accepted(address, "You are signed in. Your next visit begins with “Sign in”.");
  };
  return card(
    isWelcome ? "You are the first admin" : isActive ? "One more way to sign in" : ["You are invited, ", said(name)],
    h("dl", { class: "grid" }, facts.map(row)),
    h(
      "div",
      { class: "grid" },
      own?.fields,
      canUse && labelled("passkey-name", "Name of the passkey", label, "To tell your devices apart"),
    ),
    h(
      "p",
      { class: "hint" },
      canUse &&
        "A passkey is made by this device, a telephone or a security key, which asks for your finger, your face or a PIN. " +
          "There is no password to remember.",
    ),
    waysToSignIn(ways, {
      purpose: "accept",
      token,
      link: `#${isWelcome ? "welcome" : "invite"}=${token}`,
      passkeyName: () => label.value.trim() || deviceName(),
      before: () => own?.check() ?? true,
      // A login leaves the page, and what was entered here.
      returnTo: isWelcome ? "#/account?welcome" : "",
      done: finish,
    }),
  );
}

/** How the first admin, whom nobody has named, is called. */
class Names {
  #name = h("input", { required: true, maxlength: MAX_NAME, dir: "auto", autocomplete: "name" });
  #email = h("input", { inputmode: "email", spellcheck: "false", dir: "auto", autocomplete: "email" });
  fields = [
    labelled("own-name", "Your name", this.#name, "Your office sees it beside what you do", "/name"),
    labelled("own-email", "Your e-mail (optional)", this.#email, undefined, "/email"),
  ];

  /** Returns whether a name is entered. */
  check() {
    const isMissing = !this.#name.value.trim();
    this.fields[0].querySelector(".error").textContent = isMissing ? "Enter your name." : "";
    if (isMissing) this.#name.focus();
    return !isMissing;
  }

  /** Returns whether the service has taken them. */
  async save() {
    const [name, email] = [this.#name, this.#email].map((it) => it.value.trim());
    try {
      await request("api/people/me", { method: "PATCH", json: email ? { name, email } : { name }, isSignIn: true });
      return true;
    } catch (failure) {
      if (!(failure instanceof Failure)) throw failure;
      return false;
    }
  }
}
