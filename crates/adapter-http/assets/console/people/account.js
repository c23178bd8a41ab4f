// The account of the person who is signed in: name, passkeys, logins, sessions.

import { actions } from "../shared/action.js";
import { problem, request, session } from "../shared/api.js";
import { forgetErrors } from "../shared/controls.js";
import { ask, button, card, count, fill, focusHeading, h, instant, labelled, moment, renew, said, table } from "../shared/dom.js";
import { storageCard } from "../key.js";
import { ROLES } from "./invitation.js";
import { MAX_NAME, addPasskey, deviceName, obstacle } from "./passkeys.js";
import { readWays, wayIn } from "./sign_in.js";

const PATH = "api/people/me";

/** Returns the view. `signedOut` is called when the person has signed out everywhere, with a sentence. */
export function accountView(address, signedOut) {
  const view = new Account(address.endsWith("?welcome"), signedOut);
  return { title: "Your account", element: view.element };
}

const minutes = (seconds) => count(Math.round(seconds / 60), "minute");

class Account {
  #problem = h("div", { tabindex: "-1" });
  #content = h("div", {}, h("p", {}, "Loading…"));
  #signedOut;
  #names;
  /** The sessions of the person. */
  #own = [];
  #sessionsPath = `api/people/${session.person.id}/sessions`;
  /** Why this page makes no passkeys; `null` if it does. */
  #obstacle = null;
  #run = actions({ place: this.#problem, show: () => this.#show() });

  constructor(isWelcome, signedOut) {
    this.#signedOut = signedOut;
    const hint = isWelcome && h("p", { class: "news" }, "You are signed in. Enter your name: your office sees it beside what you do.");
    this.element = h("div", {}, hint, this.#problem, this.#content, storageCard());
    this.#run(async () => (this.#obstacle = obstacle(await readWays())));
  }

  async #show() {
    const [{ body }, { body: { sessions } }] = await Promise.all([request(PATH), request(this.#sessionsPath)]);
    this.#own = sessions;
    this.#names ??= this.#form(body);
    renew(this.#content, () => [this.#person(body), this.#passkeys(body), this.#logins(body), this.#sessions()]);
  }

  #person({ id }) {
    const row = (label, ...value) => h("div", {}, h("dt", {}, label), h("dd", {}, value));
    const { client_name: client, signing_service_name: service } = session.terms;
    const facts = [
      row("Office", said((session.isService ? service : client) ?? "no name")),
      row("Role", ROLES[session.person.role]),
      row("Your number", String(id)),
    ];
    return card("You", h("dl", { class: "grid" }, facts), this.#names);
  }

  #form({ name, email }) {
    const [own, address] = [
      h("input", { required: true, maxlength: MAX_NAME, dir: "auto", autocomplete: "name", value: name }),
      h("input", { inputmode: "email", spellcheck: "false", dir: "auto", autocomplete: "email", value: email }),
    ];
    const submit = async (event) => {
      event.preventDefault();
      forgetErrors(form);
      const [newName, newEmail] = [own, address].map((it) => it.value.trim());
      const json = newEmail ? { name: newName, email: newEmail } : { name: newName };
      const save = async () => {
        await request(PATH, { method: "PATCH", json });
        await session.renew();
      };
      await this.#run(save, "Saved.", form);
    };
    const form = h(
      "form",
      { class: "grid below", novalidate: true, submit },
      labelled("account-name", "Name", own, "Your office sees it beside what you do", "/name"),
      labelled("account-email", "E-mail", address, "Invitations are mailed there. Nobody signs in by it", "/email"),
      h("div", { class: "buttons" }, h("button", { class: "primary", id: "account-save" }, "Save")),
    );
    return form;
  }

  #passkeys({ passkeys, logins }) {
    const heads = ["Name", "Added", "Last use", "Actions"];
    const cells = (it) => [
      said(it.name),
      moment(it.created_at),
      it.last_used_at ? moment(it.last_used_at) : "Never",
      button("Remove", () => this.#remove(it, passkeys.length + logins.length), {
        class: "danger", "aria-label": `Remove the passkey ${it.name}`, id: `passkey-${it.id}-remove`,
      }),
    ];
    const list = passkeys.length
      ? table(count(passkeys.length, "passkey"), heads, passkeys.map(cells))
      : h("p", {}, "You have no passkey.");
    return card("Passkeys", list, this.#obstacle ? h("p", { class: "hint" }, this.#obstacle) : this.#addition(passkeys));
  }

  #addition(passkeys) {
    const hint = "A second one helps when a device is lost. Some of them are on all your devices.";
    const name = h("input", { maxlength: MAX_NAME, dir: "auto", value: deviceName() });
    const add = async () => {
      if (await this.#run(() => addPasskey(name.value.trim() || deviceName()), "The passkey is added.")) focusHeading();
    };
    const submit = (event) => {
      event.preventDefault();
      add();
    };
    return h(
      "form",
      { class: "below", novalidate: true, submit },
      labelled("new-passkey", passkeys.length ? "Name of another passkey" : "Name of the passkey", name, hint),
      h("div", { class: "buttons" }, h("button", { id: "passkey-add" }, "Add a passkey")),
    );
  }

  async #remove({ id, name }, ways) {
    const confirmed = await ask({
      title: "Remove this passkey?",
      lines: [
        [said(name), " signs nobody in any more. The device may still offer it: remove it there, too."],
        ways === 1 && "It is your last way to sign in, so the service will keep it. Add another one first.",
      ].filter(Boolean),
      confirm: "Remove it",
      danger: true,
    });
    if (confirmed) this.#run(() => request(`${PATH}/passkeys/${id}`, { method: "DELETE" }), "The passkey is removed.");
  }

  #logins({ logins }) {
    const item = ({ issuer }) => h("li", {}, said(issuer));
    return logins.length > 0 && card("Logins of your company", h("ul", {}, logins.map(item)));
  }

  /** Returns where the person is signed in. */
  #sessions() {
    const { expires_at: end } = session.own;
    const item = ({ way, signed_in_at: since, last_used_at: last, is_current: isThis }) =>
      h("li", {}, isThis ? "This browser" : "Another browser", ", ", wayIn(way), ": since ", instant(since), ", last used ", instant(last));
    const everywhere = async () => {
      const lines = ["Every browser and device in which you are signed in, this one too. Drafts stay."];
      if (!(await ask({ title: "Sign out everywhere?", lines, confirm: "Sign out everywhere", danger: true }))) return;
      if (await this.#end()) this.#signedOut("You are signed out everywhere.");
    };
    return card(
      "Where you are signed in",
      h("ul", {}, this.#own.map(item)),
      h("p", { class: "hint" }, "In this browser until ", instant(end), " at the latest, and not longer than ", minutes(session.own.idle_seconds), " without you."),
      h("div", { class: "buttons" }, button("Sign out everywhere", everywhere, { id: "sign-out-everywhere" })),
    );
  }

  async #end() {
    try {
      await request(this.#sessionsPath, { method: "DELETE" });
      await request("api/session", { method: "DELETE", isSignIn: true });
      return true;
    } catch (failure) {
      fill(this.#problem, problem(failure));
      this.#problem.focus();
      return false;
    }
  }
}
