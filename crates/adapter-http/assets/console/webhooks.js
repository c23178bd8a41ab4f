// Webhooks: the endpoints, their deliveries that failed, replay and test event.

import { ProblemBox, nextPage, problem, request } from "./api.js";
import {
  announce, ask, badge, button, card, fill, focusHeading, h, instant, labelled, renew, said, table,
} from "./dom.js";

const PATH = "api/webhooks";
const EVENTS = [
  "order.created", "order.documents_added", "order.updated", "order.cancelled", "order.changed",
  "order.signed_documents_added", "order.documents_replaced", "order.document_withdrawn", "order.note_added",
];
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
  #secret = h("div", { tabindex: "-1" });
  #list = h("div", {}, h("p", {}, "Loading…"));
  deliveries = new Deliveries((action, done) => this.run(action, done));

  constructor() {
    this.element = h(
      "div",
      {},
      this.#problem,
      this.#secret,
      this.#list,
      this.deliveries.element,
      this.#creation(),
    );
    this.run(async () => {});
  }

  /** Does something, and shows the webhooks as they are then, or what went wrong. */
  async run(action, done) {
    fill(this.#problem);
    try {
      await action();
      if (done) announce(done, true);
      const { body } = await request(PATH);
      this.#show(body.data);
      return true;
    } catch (failure) {
      if (!this.#list.querySelector("section")) fill(this.#list);
      fill(this.#problem, problem(failure));
      this.#problem.focus();
      return false;
    }
  }

  #show(endpoints) {
    const none = h("p", { class: "card" }, "There is no webhook yet. Create one below.");
    renew(this.#list, endpoints.length ? endpoints.map((it) => this.#endpoint(it)) : none);
  }

  #endpoint(it) {
    const path = `${PATH}/${it.id}`;
    const isEnabled = it.status === "enabled";
    const post = (to, done) => () => this.run(() => request(`${path}/${to}`, { method: "POST" }), done);
    const set = (status, done) => () =>
      this.run(() => request(path, { method: "PATCH", json: { status } }), done);
    const test = async () => {
      if (await post("test", "The test event is on its way.")()) this.deliveries.open(it, false);
    };
    const id = (action) => ({ id: `webhook-${it.id}-${action}` });
    const toggle = isEnabled
      ? button("Disable", set("disabled", "Disabled. Its events wait for 30 days."), id("toggle"))
      : button("Enable", set("enabled", "Enabled."), id("toggle"));
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
        button("Failed deliveries", () => this.deliveries.open(it, true), id("failed")),
        button("All deliveries", () => this.deliveries.open(it, false), id("all")),
        isEnabled && button("Send a test event", test, id("test")),
        toggle,
        button("New secret", () => this.#rotate(it, path), id("secret")),
        button("Delete", () => this.#delete(it, path), { class: "danger", ...id("delete") }),
      ),
    );
  }

  async #rotate({ url }, path) {
    const lines = [[said(url), ": the old secret stays valid for 24 hours."]];
    const confirmed = await ask({ title: "Replace the secret?", lines, confirm: "Replace it" });
    if (!confirmed) return;
    await this.run(async () => {
      const { body } = await request(`${path}/rotate-secret`, { method: "POST" });
      this.#showSecret(body.secret);
    });
  }

  async #delete({ url }, path) {
    const lines = [[said(url), ": its deliveries are deleted, too."]];
    const confirmed = await ask({ title: "Delete this webhook?", lines, confirm: "Delete it", danger: true });
    if (!confirmed) return;
    this.deliveries.close();
    await this.run(() => request(path, { method: "DELETE" }), "Deleted.");
  }

  /** Shows a secret, which no other answer has. */
  #showSecret(secret) {
    const forget = () => {
      fill(this.#secret);
      focusHeading();
    };
    const done = button("I have stored it", forget);
    const text = "Store this secret now: it is shown this once.";
    fill(this.#secret, card("Secret of the webhook", h("p", {}, text), h("p", {}, h("code", {}, secret)), done));
    this.#secret.focus();
  }

  #creation() {
    const url = h("input", { type: "url", required: true, placeholder: "https://", spellcheck: "false" });
    const description = h("input", { maxlength: 200, dir: "auto" });
    const box = (event) =>
      h("input", { type: "checkbox", value: event, id: `event-${event}`, checked: true });
    const boxes = EVENTS.map(box);
    const create = h("button", { class: "primary" }, "Create");
    let isBusy = false;
    const submit = async (event) => {
      event.preventDefault();
      // A second request would create a second webhook, and replace the secret that is shown.
      if (isBusy) return;
      isBusy = true;
      create.setAttribute("aria-disabled", true);
      const json = { url: url.value.trim(), events: boxes.filter((box) => box.checked).map((box) => box.value) };
      if (description.value.trim()) json.description = description.value.trim();
      await this.run(async () => {
        const { body } = await request(PATH, { method: "POST", json });
        this.#showSecret(body.secret);
        event.target.reset();
      }, "Created.");
      isBusy = false;
      create.setAttribute("aria-disabled", false);
    };
    const choice = (box) => h("span", { class: "radio" }, box, h("label", { for: box.id }, box.value));
    return card(
      "Create a webhook",
      h(
        "form",
        { class: "grid", novalidate: true, autocomplete: "off", submit },
        labelled("webhook-url", "URL", url),
        labelled("webhook-description", "Description", description, "A note of yours"),
        h("fieldset", { class: "radios wide" }, h("legend", {}, "Events"), boxes.map(choice)),
        h("div", { class: "buttons" }, create),
      ),
    );
  }
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
      (document.getElementById(`webhook-${endpoint.id}-failed`) ?? document.querySelector("main h1")).focus();
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
