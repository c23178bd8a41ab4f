// The keys of the office, with which its programs sign in, for its admins.

import { actions } from "../shared/action.js";
import { RIGHTS, request, session } from "../shared/api.js";
import { forgetErrors } from "../shared/controls.js";
import { ask, button, card, count, h, instant, labelled, moment, renew, said, table } from "../shared/dom.js";
import { keyPlace, showKey } from "./once.js";

const PATH = "api/keys";

/** What a program seldom needs, which is not chosen at first. */
const SELDOM = "webhooks:manage";

/** Returns the view. */
export function keysView() {
  const view = new Keys();
  return { title: "Keys", element: view.element };
}

class Keys {
  #problem = h("div", { tabindex: "-1" });
  #list = h("div", {}, h("p", {}, "Loading…"));
  #run = actions({
    place: this.#problem,
    list: this.#list,
    show: async () => {
      const { body } = await request(PATH);
      renew(this.#list, () => this.#card(body.keys));
    },
  });

  constructor() {
    const hint = "A program sends a key with each request. People sign in as themselves: give no key to a person.";
    this.element = h("div", {}, h("p", { class: "hint" }, hint), this.#problem, keyPlace, this.#list, this.#issue());
    this.#run(async () => {});
  }

  #card(keys) {
    const heads = ["Name", "Begins with", "May", "State", "Created", "Last use", "Actions"];
    const cells = (it) => [
      [h("strong", {}, said(it.name)), it.is_test && [" ", h("span", { class: "badge", "data-status": "test" }, "Test")]],
      h("code", {}, it.start),
      [
        it.scopes.map((scope) => RIGHTS[scope] ?? scope).join("; ") || "nothing",
        it.signing_service_id !== null && h("div", { class: "hint" }, `for signing service ${it.signing_service_id} only`),
      ],
      stateOf(it),
      moment(it.created_at),
      it.last_used_at ? moment(it.last_used_at) : "Never",
      isOver(it) ? "None" : this.#actions(it),
    ];
    const order = keys.toSorted((one, other) => Number(isOver(one)) - Number(isOver(other)));
    const list = table(count(keys.length, "key"), heads, order.map(cells));
    list.classList.add("accounts");
    return card("Keys of the office", list);
  }

  #actions(it) {
    const id = (action) => ({ id: `key-${it.id}-${action}` });
    return h(
      "div",
      { class: "row" },
      button("Replace", () => this.#rotate(it), { ...id("rotate"), "aria-label": `Replace the key ${it.name}` }),
      button("Revoke", () => this.#revoke(it), { class: "danger", ...id("revoke"), "aria-label": `Revoke the key ${it.name}` }),
    );
  }

  async #rotate(it) {
    const lines = [
      [said(it.name), ": you get a new key for the same program. The old one works for 24 hours more, so that the program " +
        "can change over."],
    ];
    if (!(await ask({ title: "Replace the key?", lines, confirm: "Make the new key" }))) return;
    await this.#run(async () => {
      const { body } = await request(`${PATH}/${it.id}/rotate`, { method: "POST", json: {} });
      showKey(it.name, body.key, ["The old key works until ", instant(body.old_valid_until), "."]);
    });
  }

  async #revoke(it) {
    const lines = [[said(it.name), ": its program is rejected within ten seconds. This cannot be undone."]];
    if (!(await ask({ title: "Revoke the key?", lines, confirm: "Revoke it", danger: true }))) return;
    await this.#run(() => request(`${PATH}/${it.id}`, { method: "DELETE" }), "The key is revoked.");
  }

  #issue() {
    const name = h("input", { required: true, maxlength: 100, dir: "auto" });
    const days = h("input", { inputmode: "numeric" });
    const test = h("input", { type: "checkbox", id: "key-test" });
    const box = (scope) =>
      h("input", { type: "checkbox", value: scope, id: `key-may-${scope.replace(":", "-")}`, checked: scope !== SELDOM });
    const boxes = session.terms.scopes.map(box);
    const choice = (it) => h("span", { class: "radio" }, it, h("label", { for: it.id }, RIGHTS[it.value] ?? it.value));
    let isBusy = false;
    const submit = async (event) => {
      event.preventDefault();
      // A second request would make a second key.
      if (isBusy) return;
      isBusy = true;
      forgetErrors(form);
      const json = {
        name: name.value.trim(),
        scopes: boxes.filter((it) => it.checked).map((it) => it.value),
        is_test: test.checked,
      };
      const lifetime = days.value.trim();
      if (lifetime) json.expires_in_days = /^\d{1,6}$/.test(lifetime) ? Number(lifetime) : lifetime;
      const issue = async () => {
        const { body } = await request(PATH, { method: "POST", json });
        form.reset();
        showKey(json.name, body.key);
      };
      await this.#run(issue, "The key is made.", form);
      isBusy = false;
    };
    const form = h(
      "form",
      { class: "grid", novalidate: true, autocomplete: "off", submit },
      labelled("key-name", "Name", name, "Such as the program that uses it", "/name"),
      labelled("key-days", "Days until it expires (optional)", days, "Without a number it does not expire", "/expires_in_days"),
      h(
        "div",
        { class: "field check" },
        test,
        h("label", { for: test.id }, "Test key: sees test orders only"),
      ),
      h(
        "div",
        { class: "wide", "data-pointer": "/scopes" },
        h("fieldset", { class: "radios", "aria-describedby": "key-may-error" }, h("legend", {}, "It may"), boxes.map(choice)),
        h("p", { class: "error", id: "key-may-error" }),
      ),
      h("div", { class: "buttons" }, h("button", { class: "primary" }, "Make a key")),
    );
    return card("Make a key", form);
  }
}

const hasPassed = (iso) => iso !== null && new Date(iso) <= new Date();

/** Returns whether a key does not work any more. */
const isOver = ({ revoked_at: revoked, expires_at: end }) => hasPassed(revoked) || hasPassed(end);

/** Returns whether a key works, and until when. */
function stateOf({ revoked_at: revoked, expires_at: end }) {
  const badge = (status, text) => h("span", { class: "badge", "data-status": status }, text);
  if (hasPassed(revoked)) return [badge("failed", "Revoked"), h("div", { class: "hint" }, moment(revoked))];
  if (hasPassed(end)) return [badge("disabled", "Expired"), h("div", { class: "hint" }, moment(end))];
  return [badge("enabled", "Works"), end && h("div", { class: "hint" }, "until ", moment(end))];
}
