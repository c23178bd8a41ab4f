// Webhooks: the endpoints, their deliveries that failed, replay and test event.

import { actions } from "../shared/action.js";
import { ProblemBox, nextPage, request } from "../shared/api.js";
import { forgetErrors } from "../shared/controls.js";
import {
  ask, badge, button, card, fill, focusHeading, h, instant, labelled, renew, said, table,
} from "../shared/dom.js";
import { copy } from "../shared/copy.js";
import { inTab } from "../shared/draft.js";
import { askBeforeLeaving } from "../shared/leave.js";
import { menu } from "../shared/menu.js";

const PATH = "api/webhooks";
const EVENTS = {
  "order.created": "an order was created",
  "order.documents_added": "documents were added",
  "order.updated": "status or notary changed",
  "order.cancelled": "an order was cancelled",
  "order.changed": "the client changed an order",
  "order.signed_documents_added": "signed documents arrived",
  "order.documents_replaced": "a document was replaced",
  "order.document_withdrawn": "a document was withdrawn",
  "order.note_added": "a note was written",
  "order.erased": "an order was erased",
};
const DISABLED_BY = {
  request: "by a request",
  gone: "because its receiver answered 410",
  failures: "because no attempt succeeded for five days",
};

/** Seconds between two refreshes of the deliveries. */
const PERIOD = 10;

/** Returns the view. */
export function webhooks() {
  const view = new Webhooks();
  return { title: "Webhooks", element: view.element, dispose: () => view.deliveries.dispose() };
}

class Webhooks {
  #problem = h("div", { tabindex: "-1" });
  #list = h("div", {}, h("p", {}, "Loading…"));
  /** The card of the webhook that the user edits, and its number. */
  #edited = null;
  run = actions({
    place: this.#problem,
    list: this.#list,
    show: async () => this.#show((await request(PATH)).body.data),
  });
  deliveries = new Deliveries((action, done) => this.run(action, done));

  constructor() {
    this.element = h(
      "div",
      {},
      this.#problem,
      secretPlace,
      this.#list,
      this.deliveries.element,
      this.#creation(),
    );
    showSecret();
    this.run(async () => {});
  }

  #show(endpoints) {
    const none = h("p", { class: "card" }, "There is no webhook yet. Create one below.");
    renew(this.#list, () => (endpoints.length ? endpoints.map((it) => this.#endpoint(it)) : none));
  }

  #endpoint(it) {
    if (this.#edited?.id === it.id) return this.#edited.card;
    const path = `${PATH}/${it.id}`;
    const isEnabled = it.status === "enabled";
    const post = (to, done) => () => this.run(() => request(`${path}/${to}`, { method: "POST" }), done);
    const set = (status, done) => () =>
      this.run(() => request(path, { method: "PATCH", json: { status } }), done);
    const test = async () => {
      if (await post("test", "The test event is on its way.")()) this.deliveries.open(it, false);
    };
    const id = (action) => ({ id: `webhook-${it.id}-${action}` });
    const actions = {
      enable: ["Enable", set("enabled", "Enabled."), id("toggle")],
      failed: ["Failed deliveries", () => this.deliveries.open(it, true), id("failed")],
      test: ["Send a test event", test, id("test")],
    };
    const name = !isEnabled ? "enable" : it.failing_since ? "failed" : "test";
    const [label, run, attributes] = actions[name];
    return h(
      "section",
      { class: "card", "aria-label": `Webhook ${it.id}` },
      h("h2", {}, said(it.url), " ", badge(it.status)),
      it.description && h("p", {}, said(it.description)),
      h("p", { class: "hint" }, "Events: ", it.events.join(", ")),
      it.failing_since && h("p", { class: "warning" }, "Failing since ", instant(it.failing_since)),
      it.disabled_by && h("p", { class: "warning" }, `Disabled ${DISABLED_BY[it.disabled_by] ?? ""}`),
      h(
        "div",
        { class: "buttons" },
        button(label, run, { class: "primary", ...attributes }),
        menu("More…", `More actions for webhook ${it.id}`, `webhook-${it.id}-more`, [
          ["Edit", () => this.#edit(it, path), id("edit")],
          name !== "failed" && actions.failed,
          ["All deliveries", () => this.deliveries.open(it, false), id("all")],
          isEnabled && name !== "test" && actions.test,
          isEnabled && ["Disable", set("disabled", "Disabled. Its events wait for 30 days."), id("toggle")],
          ["New secret", () => this.#rotate(it, path), id("secret")],
          ["Delete", () => this.#delete(it, path), { class: "danger", ...id("delete") }],
        ]),
      ),
    );
  }

  /** Lets the user change URL, description and events in the place of the card. */
  #edit(it, path) {
    const leave = () => {
      this.#edited = null;
      this.run(async () => {});
      focusHeading();
    };
    const form = endpointForm(`webhook-${it.id}`, "Save", it, async (json) => {
      const save = async () => {
        await request(path, { method: "PATCH", json: { description: null, ...json } });
        this.#edited = null;
      };
      if (await this.run(save, "Saved.", form)) focusHeading();
    });
    form.querySelector(".buttons").append(button("Back", leave));
    const edited = h("section", { class: "card", "aria-label": `Webhook ${it.id}` }, h("h2", {}, "Edit the webhook"), form);
    this.#edited = { id: it.id, card: edited };
    document.getElementById(`webhook-${it.id}-edit`)?.closest("section").replaceWith(edited);
    form.querySelector("input").focus();
  }

  async #rotate(endpoint, path) {
    const lines = [[said(endpoint.url), ": the old secret stays valid for 24 hours."]];
    const confirmed = await ask({ title: "Replace the secret?", lines, confirm: "Replace it" });
    if (!confirmed) return;
    await this.run(async () => {
      const { body } = await request(`${path}/rotate-secret`, { method: "POST" });
      keepSecret(endpoint, body);
    });
  }

  async #delete({ id, url }, path) {
    const lines = [[said(url), ": its deliveries are deleted, too."]];
    const confirmed = await ask({ title: "Delete this webhook?", lines, confirm: "Delete it", danger: true });
    if (!confirmed) return;
    this.deliveries.close();
    const remove = async () => {
      await request(path, { method: "DELETE" });
      if (secret?.id === id) forgetSecret();
    };
    await this.run(remove, "Deleted.");
  }

  #creation() {
    const form = endpointForm("webhook", "Create", { events: Object.keys(EVENTS) }, (json) => {
      const create = async () => {
        const { body } = await request(PATH, { method: "POST", json });
        keepSecret(body, body);
        form.reset();
      };
      return this.run(create, "Created.", form);
    });
    return card("Create a webhook", form);
  }
}

/** Returns a form for an endpoint. `save` gets its members. */
function endpointForm(id, label, { url = "", description, events }, save) {
  const address = h("input", { type: "url", required: true, placeholder: "https://", spellcheck: "false", value: url });
  const note = h("input", { maxlength: 200, dir: "auto", value: description });
  const box = (event) => {
    const own = id === "webhook" ? `event-${event}` : `${id}-${event}`;
    return h("input", { type: "checkbox", value: event, id: own, checked: events.includes(event) });
  };
  const boxes = [...new Set([...Object.keys(EVENTS), ...events])].map(box);
  const choice = (box) => {
    const words = EVENTS[box.value] && h("span", { class: "hint" }, ` ${EVENTS[box.value]}`);
    return h("span", { class: "radio" }, box, h("label", { for: box.id }, box.value, words));
  };
  const send = h("button", { class: "primary" }, label);
  let isBusy = false;
  const submit = async (event) => {
    event.preventDefault();
    // A second request would create a second webhook.
    if (isBusy) return;
    isBusy = true;
    send.setAttribute("aria-disabled", true);
    forgetErrors(form);
    const json = { url: address.value.trim(), events: boxes.filter((it) => it.checked).map((it) => it.value) };
    if (note.value.trim()) json.description = note.value.trim();
    await save(json);
    isBusy = false;
    send.setAttribute("aria-disabled", false);
  };
  const form = h(
    "form",
    { class: "grid", novalidate: true, autocomplete: "off", submit },
    labelled(`${id}-url`, "URL", address, undefined, "/url"),
    labelled(`${id}-description`, "Description", note, "A note of yours", "/description"),
    h(
      "div",
      { class: "wide", "data-pointer": "/events" },
      h("fieldset", { class: "radios", "aria-describedby": `${id}-events-error` }, h("legend", {}, "Events"), boxes.map(choice)),
      h("p", { class: "error", id: `${id}-events-error` }),
    ),
    h("div", { class: "buttons" }, send),
  );
  return form;
}

/** Where a secret is kept until its user has stored it: in this tab. No other answer has it. */
const KEPT = "notary-orders.secret";
const secretPlace = h("div", { tabindex: "-1" });
let secret = null;

askBeforeLeaving(() => hasSecret());

/** Keeps the secret of an endpoint, which an answer has, and shows it. */
function keepSecret({ id, url }, { secret: text }) {
  secret = { id, url, text };
  inTab((storage) => storage.setItem(KEPT, JSON.stringify(secret)));
  showSecret();
  secretPlace.focus();
}

/** Returns whether a secret is shown that its user has not stored. */
export const hasSecret = () => secret !== null;

/** Forgets the secret. */
export function forgetSecret() {
  secret = null;
  inTab((storage) => storage.removeItem(KEPT));
  fill(secretPlace);
}

function showSecret() {
  secret ??= JSON.parse(inTab((storage) => storage.getItem(KEPT)));
  if (!secret) {
    fill(secretPlace);
    return;
  }
  const code = h("code", {}, secret.text);
  const done = () => {
    forgetSecret();
    focusHeading();
  };
  fill(
    secretPlace,
    card(
      "Secret of the webhook",
      h("p", {}, "Store this secret now, where the receiver reads it: it is shown this once."),
      h("p", { class: "hint" }, said(secret.url)),
      h("p", {}, code),
      h(
        "div",
        { class: "buttons" },
        button("Copy", () => copy(code), { class: "primary", "aria-label": "Copy the secret" }),
        button("I have stored it", done),
      ),
    ),
  );
}

/** The deliveries of one endpoint. */
class Deliveries {
  #run;
  #endpoint = null;
  #onlyFailed = true;
  #pages = 1;
  /** Counts the loads: the answer of an older one is dropped. */
  #loads = 0;
  #timer = null;
  #trouble = new ProblemBox();
  #panel = h("div");
  element = h("div", { tabindex: "-1" }, this.#trouble.element, this.#panel);

  constructor(run) {
    this.#run = run;
  }

  async open(endpoint, onlyFailed) {
    [this.#endpoint, this.#onlyFailed, this.#pages] = [endpoint, onlyFailed, 1];
    // If the list cannot be loaded, that of another webhook does not stay.
    fill(this.#panel);
    document.addEventListener("visibilitychange", this.#seen);
    await this.#load();
    this.element.focus();
  }

  close() {
    this.dispose();
    this.#trouble.show(null);
    fill(this.#panel);
  }

  dispose() {
    clearTimeout(this.#timer);
    document.removeEventListener("visibilitychange", this.#seen);
    this.#endpoint = null;
  }

  #seen = () => {
    if (document.hidden) clearTimeout(this.#timer);
    else this.#load();
  };

  #again = (action, done) => async () => {
    if (await this.#run(action, done)) await this.#load();
  };

  async #load() {
    clearTimeout(this.#timer);
    const load = ++this.#loads;
    const endpoint = this.#endpoint;
    if (!endpoint) return;
    const isOld = () => endpoint !== this.#endpoint || load !== this.#loads;
    let wait = PERIOD;
    try {
      const { records, hasMore } = await this.#read(endpoint);
      if (isOld()) return;
      this.#trouble.show(null);
      renew(this.#panel, this.#card(endpoint, records, hasMore));
    } catch (failure) {
      if (isOld()) return;
      this.#trouble.show(failure);
      // These do not get better by themselves.
      if ([400, 401, 403, 404].includes(failure.status)) return;
      wait = Math.max(wait, failure.retryAfter);
    }
    if (!document.hidden) this.#timer = setTimeout(() => this.#load(), wait * 1000);
  }

  async #read({ id }) {
    const records = [];
    let address = `${PATH}/${id}/deliveries?limit=100`;
    for (let page = 0; address && page < this.#pages; page++) {
      const { body, headers } = await request(address);
      records.push(...body.data);
      address = nextPage(headers);
    }
    return { records, hasMore: Boolean(address) };
  }

  #card(endpoint, all, hasMore) {
    const records = this.#onlyFailed ? all.filter(hasFailed) : all;
    const path = `${PATH}/${endpoint.id}`;
    const replay = (it) =>
      this.#again(
        () => request(`${path}/deliveries/${it.id}/replay`, { method: "POST" }),
        "The delivery is sent again.",
      );
    const cells = (it) => [
      it.event,
      it.order_id ? `order ${it.order_id}` : "none",
      badge(it.status === "pending" && hasFailed(it) ? "retrying" : it.status),
      lastAttempt(it),
      instant(it.created_at),
      button("Send again", replay(it), { id: `replay-${it.id}`, "aria-label": `Send again: delivery ${it.id}` }),
    ];
    const heads = ["Event", "Order", "Status", "Last attempt", "Happened", "Replay"];
    const older = () => {
      this.#pages++;
      this.#load();
    };
    const none = hasMore ? `None of the newest ${all.length} deliveries has failed.` : "No delivery has failed.";
    const close = () => {
      this.close();
      const card = document.getElementById(`webhook-${endpoint.id}-failed`)?.closest("section");
      (card?.querySelector("button") ?? document.querySelector("main h1")).focus();
    };
    const title = this.#onlyFailed ? "Failed deliveries" : "All deliveries";
    return card(
      title,
      h("p", { class: "hint" }, said(endpoint.url)),
      records.length
        ? table(`${title}, newest first`, heads, records.map(cells))
        : h("p", {}, this.#onlyFailed ? none : "There is no delivery yet."),
      h(
        "div",
        { class: "buttons" },
        hasMore && button("Show older deliveries", older, { id: "deliveries-older" }),
        button("Replay a time range", () => this.#replayTime(path), { id: "deliveries-replay" }),
        button("Close", close, { id: "deliveries-close" }),
      ),
    );
  }

  async #replayTime(path) {
    const moment = (name) => h("input", { type: "datetime-local", name, required: name === "since" });
    const values = await ask({
      title: "Replay a time range",
      lines: ["They keep their identifiers, so a receiver ignores those that it has handled."],
      controls: [
        labelled("replay-since", "From", moment("since")),
        labelled("replay-until", "Until", moment("until"), "Now if empty"),
      ],
      confirm: "Send them again",
    });
    if (!values) return;
    const json = { since: new Date(values.since).toISOString() };
    if (values.until) json.until = new Date(values.until).toISOString();
    await this.#again(() => request(`${path}/replay`, { method: "POST", json }), "They are sent again.")();
  }
}

/** Returns whether an attempt has failed and none has succeeded. */
const hasFailed = ({ status, attempts }) =>
  status === "failed" || (status === "pending" && attempts.length > 0);

function lastAttempt({ attempts }) {
  const last = attempts.at(-1);
  if (!last) return "none yet";
  return [String(last.status_code ?? last.error).replaceAll("_", " "), ", ", instant(last.at)];
}
