// The people of the office, for its admins: who they are, invitations, roles, who may sign in.

import { actions } from "../shared/action.js";
import { Failure, request, session } from "../shared/api.js";
import { forgetErrors } from "../shared/controls.js";
import { ask, button, card, count, emailLink, h, instant, labelled, moment, renew, said, table } from "../shared/dom.js";
import { menu } from "../shared/menu.js";
import { toast } from "../shared/toast.js";
import { linkPlace, showLink } from "./once.js";
import { MAX_NAME } from "./passkeys.js";
import { wayIn } from "./sign_in.js";

const PATH = "api/people";
const ROLE = { admin: "Admin", member: "Member" };
const STATE = { invited: "Invited", active: "Active", disabled: "Disabled" };

/** Seconds between two refreshes: somebody has accepted an invitation. */
const PERIOD = 10;

/** Returns the view. */
export function peopleView() {
  const view = new People();
  return { title: "People", element: view.element, dispose: () => view.dispose() };
}

class People {
  #problem = h("div", { tabindex: "-1" });
  #list = h("div", {}, h("p", {}, "Loading…"));
  #timer;
  #run = actions({
    place: this.#problem,
    list: this.#list,
    show: async () => this.#show((await request(PATH)).body.people),
  });

  constructor() {
    this.element = h("div", {}, this.#problem, linkPlace, this.#list, this.#invitation());
    this.#run(async () => {});
    this.#timer = setInterval(() => this.#refresh(), PERIOD * 1000);
  }

  dispose() {
    clearInterval(this.#timer);
  }

  /** Shows the people as they are, unless the user is about to do something. */
  async #refresh() {
    const isUsed = () => document.querySelector("dialog, [aria-expanded=true]") || this.#problem.firstChild;
    if (document.hidden || isUsed()) return;
    try {
      const { body } = await request(PATH);
      if (!isUsed()) this.#show(body.people);
    } catch (failure) {
      // The next action says what is wrong.
      if (!(failure instanceof Failure)) throw failure;
    }
  }

  #show(people) {
    renew(this.#list, () => this.#card(people));
  }

  #card(people) {
    const heads = ["Name", "Role", "State", "Last seen", "Passkeys", "Actions"];
    const cells = (it) => [
      [
        h("strong", {}, said(it.name)),
        isOwn(it) && " (you)",
        it.email && h("div", { class: "hint" }, emailLink(it.email)),
      ],
      ROLE[it.role] ?? it.role,
      stateOf(it),
      it.last_seen_at ? moment(it.last_seen_at) : "Never",
      it.passkeys.length ? count(it.passkeys.length, "passkey") : "None",
      this.#actions(it),
    ];
    const list = table(people.length === 1 ? "1 person" : `${people.length} people`, heads, people.map(cells));
    list.classList.add("accounts");
    return card("Who can sign in", list);
  }

  #actions(it) {
    const path = `${PATH}/${it.id}`;
    const set = (json, done) => this.#run(() => this.#patch(it, json), done);
    const id = (action) => ({ id: `person-${it.id}-${action}` });
    const isAdmin = it.role === "admin";
    const disable = ["Disable", () => this.#disable(it), { class: "danger", ...id("disable") }];
    const enable = ["Enable", () => set({ disabled: false }, `${it.name} may sign in again.`), id("enable")];
    const again = [
      it.state === "active" ? "New link to sign in" : "Invite again",
      () => this.#inviteAgain(it, path),
      id("invite"),
    ];
    const isOpen = it.invitation_expires_at !== null && new Date(it.invitation_expires_at) > new Date();
    const first = { invited: again, active: disable, disabled: enable }[it.state];
    const [label, run, attributes] = first;
    const others = [
      it.state === "active" && again,
      isOpen && it.state !== "disabled" && ["Withdraw the invitation", () => this.#withdraw(it, path), id("withdraw")],
      it.state !== "disabled" && [
        isAdmin ? "Make a member" : "Make an admin",
        () => set({ role: isAdmin ? "member" : "admin" }, `${it.name} is ${isAdmin ? "a member" : "an admin"} now.`),
        id("role"),
      ],
      ["Change name or e-mail", () => this.#rename(it), id("rename")],
      // The own sessions are in the own account.
      it.state === "active" && !isOwn(it) && ["Sign out everywhere", () => this.#endSessions(it, path), id("sessions")],
      it.passkeys.length > 0 && ["Remove a passkey", () => this.#removePasskey(it, path), id("passkeys")],
      it.state === "invited" && disable,
    ];
    return h(
      "div",
      { class: "row" },
      button(label, run, { ...attributes, "aria-label": `${label}: ${it.name}` }),
      menu("More…", `More actions for ${it.name}`, `person-${it.id}-more`, others),
    );
  }

  /** Changes a person. The own name or role stands in this page, too. */
  async #patch(it, json) {
    await request(`${PATH}/${it.id}`, { method: "PATCH", json });
    if (isOwn(it)) await session.renew();
  }

  async #inviteAgain(it, path) {
    const lines = [
      it.state === "active"
        ? [said(it.name), " gets one more way to sign in by it, such as after the loss of a device."]
        : "The link before stops working.",
    ];
    const title = it.state === "active" ? "Make a new link?" : "Invite again?";
    if (!(await ask({ title, lines, confirm: "Make the link" }))) return;
    await this.#run(async () => {
      const { body } = await request(`${path}/invitation`, { method: "POST" });
      showLink(it.name, body);
    });
  }

  async #withdraw(it, path) {
    const lines = [[said(it.name), ": the link stops working at once."]];
    if (!(await ask({ title: "Withdraw the invitation?", lines, confirm: "Withdraw it", danger: true }))) return;
    await this.#run(() => request(`${path}/invitation`, { method: "DELETE" }), "The invitation is withdrawn.");
  }

  async #disable(it) {
    const confirmed = await ask({
      title: "Disable this person?",
      lines: [
        [said(it.name), " is signed out everywhere within ten seconds, and cannot sign in any more."],
        "What this person did stays in the history, with the name. Keys go on working: replace those that this person knows.",
      ],
      confirm: "Disable",
      danger: true,
    });
    if (confirmed) await this.#run(() => this.#patch(it, { disabled: true }), `${it.name} is disabled.`);
  }

  async #rename(it) {
    const name = h("input", { name: "name", required: true, maxlength: MAX_NAME, dir: "auto", value: it.name });
    const email = h("input", { name: "email", inputmode: "email", spellcheck: "false", dir: "auto", value: it.email });
    const values = await ask({
      title: "Change name or e-mail",
      controls: [labelled("person-name", "Name", name), labelled("person-email", "E-mail", email)],
      confirm: "Save",
    });
    if (!values) return;
    const json = { name: values.name.trim(), ...(values.email.trim() && { email: values.email.trim() }) };
    await this.#run(() => this.#patch(it, json), "Saved.");
  }

  async #endSessions(it, path) {
    let sessions = [];
    const isRead = await this.#run(async () => ({ sessions } = (await request(`${path}/sessions`)).body));
    if (!isRead) return;
    if (!sessions.length) {
      toast(`${it.name} is not signed in.`);
      return;
    }
    const line = ({ signed_in_at: since, last_used_at: last, way }) =>
      h("li", {}, "Since ", instant(since), " ", said(wayIn(way)), ", last used ", instant(last));
    const confirmed = await ask({
      title: "Sign out everywhere?",
      lines: [[said(it.name), " is signed out everywhere within ten seconds, and may sign in again."]],
      controls: [h("ul", {}, sessions.map(line))],
      confirm: "Sign out everywhere",
      danger: true,
    });
    if (!confirmed) return;
    await this.#run(() => request(`${path}/sessions`, { method: "DELETE" }), `${it.name} is signed out.`);
  }

  async #removePasskey(it, path) {
    const option = ({ id, name, last_used_at: last }) => {
      const used = last ? `last used ${moment(last).textContent}` : "never used";
      return h("option", { value: id }, `${name}, ${used}`);
    };
    const choice = h("select", { name: "passkey" }, it.passkeys.map(option));
    const values = await ask({
      title: "Remove a passkey?",
      lines: [[said(it.name), " cannot sign in with it any more. Sessions go on: “Sign out everywhere” ends them."]],
      controls: [labelled("person-passkey", "Passkey", choice)],
      confirm: "Remove it",
      danger: true,
    });
    if (!values) return;
    const remove = () => request(`${path}/passkeys/${values.passkey}`, { method: "DELETE" });
    await this.#run(remove, "The passkey is removed.");
  }

  #invitation() {
    const name = h("input", { required: true, maxlength: MAX_NAME, dir: "auto" });
    const email = h("input", { inputmode: "email", spellcheck: "false", dir: "auto" });
    const role = h("select", {}, h("option", { value: "member" }, "Member"), h("option", { value: "admin" }, "Admin"));
    let isBusy = false;
    const submit = async (event) => {
      event.preventDefault();
      // A second request would invite a second person.
      if (isBusy) return;
      isBusy = true;
      forgetErrors(form);
      const address = email.value.trim();
      const json = { name: name.value.trim(), role: role.value, ...(address && { email: address }) };
      const invite = async () => {
        const { body } = await request(PATH, { method: "POST", json });
        form.reset();
        showLink(json.name, body);
      };
      await this.#run(invite, "Invited.", form);
      isBusy = false;
    };
    const form = h(
      "form",
      { class: "grid", novalidate: true, autocomplete: "off", submit },
      labelled("invite-name", "Name", name, undefined, "/name"),
      labelled("invite-email", "E-mail (optional)", email, "The link is mailed there if this site sends mails", "/email"),
      labelled("invite-role", "Role", role, "An admin manages people and keys, too", "/role"),
      h("div", { class: "buttons" }, h("button", { class: "primary" }, "Invite")),
    );
    return card("Invite a person", form);
  }
}

const isOwn = ({ id }) => id === session.person?.id;

/** Returns whether a person may sign in, and until when an invitation is open. */
function stateOf({ state, invitation_expires_at: until }) {
  const badge = h("span", { class: "badge", "data-status": { invited: "new", active: "enabled", disabled: "disabled" }[state] }, STATE[state]);
  const isOver = until && new Date(until) <= new Date();
  const invited = until && state !== "disabled" && (isOver ? "the link is too old" : ["the link works until ", moment(until)]);
  return [badge, invited && h("div", { class: "hint" }, invited)];
}
