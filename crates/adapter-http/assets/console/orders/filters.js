// The search box of the list, and its filters, which fold away: statuses, dates, notary, and the other side.

import { forgetErrors, showErrors } from "../shared/controls.js";
import { session } from "../shared/api.js";
import { button, fill, h, labelled } from "../shared/dom.js";
import { filterCount, isAgenda, isFiltered } from "./search.js";
import { allServices } from "../shared/services.js";
import { LAST_DATE, dateIn, dayInWords } from "../shared/times.js";
import { STATUSES, statusWord } from "../shared/words.js";

const DATES = {
  signing: ["Signing", "Signing from", "Signing until", "signing_date_from", "signing_date_to"],
  created: ["Created", "Created from (your time)", "Created until (your time)", "created_from", "created_to"],
};

export class Filters {
  #search;
  #begin;
  #chips = h("div", { class: "chips", id: "search-filters" });
  #text = h("input", {
    name: "search", dir: "auto", type: "search", maxlength: 100, placeholder: "Number, name, address, phone or e-mail",
  });
  #fold = button("", () => this.#setOpen(this.#chips.hidden), { id: "search-fold", "aria-controls": "search-filters" });
  /** The names that the fields of notary and other side offer. */
  #names = { notary: h("datalist", { id: "search-notaries" }), client: h("datalist", { id: "search-clients" }) };
  #services = [];

  /** `begin` shows another search. */
  constructor(search, begin) {
    [this.#search, this.#begin] = [search, begin];
    this.#text.value = search.search;
    const submit = (event) => {
      event.preventDefault();
      this.#change(this.#entered());
    };
    const hint = [
      "Words of the file number, names, addresses, phones and e-mails, in any order; 3 characters or more.",
      h("span", { class: "keys" }, " Press / to search, ↓ for the list, the space bar to choose a row."),
    ];
    const field = labelled("search-text", "Search", this.#text, hint, "search");
    for (const it of field.querySelectorAll("label, .hint")) it.classList.add("unseen");
    this.element = h(
      "form",
      { class: "search", role: "search", "aria-label": "Orders", novalidate: true, autocomplete: "off", submit },
      h("div", { class: "line" }, field, h("button", { class: "primary", id: "search-send" }, "Search"), this.#fold),
      this.#chips,
      Object.values(this.#names),
    );
    this.#setOpen(false);
    if (!session.isService) this.#readServices();
    this.#show();
  }

  /** Shows the filters of another search. */
  take(search) {
    if (search === this.#search) return;
    this.#search = search;
    this.#text.value = search.search;
    this.#show();
  }

  /** Shows the filters, or folds them away: on a phone with the search. */
  #setOpen(isOpen) {
    this.#chips.hidden = !isOpen;
    this.element.classList.toggle("open", isOpen);
    this.#fold.setAttribute("aria-expanded", isOpen);
  }

  /** Offers the names of these orders. */
  offer(records) {
    for (const [kind, of] of [["notary", (it) => it.notary?.name], ["client", (it) => it.client_name]]) {
      const known = [...this.#names[kind].children].map((it) => it.value);
      const names = new Set([...known, ...records.map(of).filter(Boolean)]);
      if (names.size > known.length) fill(this.#names[kind], [...names].map((value) => h("option", { value })));
    }
  }

  async #readServices() {
    this.#services = await allServices();
    if (this.#services.length > 1) this.#show();
  }

  focus() {
    if (!this.#text.checkVisibility()) this.#setOpen(true);
    this.#text.focus();
    this.#text.select();
  }

  /** Returns what stands in the controls. */
  #entered() {
    const form = new FormData(this.element);
    const texts = Object.keys(this.#search).filter((name) => form.has(name));
    return Object.fromEntries(texts.map((name) => [name, form.get(name).trim()]));
  }

  #change(changed) {
    const search = { ...this.#search, ...this.#entered(), ...changed, depth: 1, from: "" };
    forgetErrors(this.element);
    const wrong = Object.values(DATES).filter(([, , , from, to]) => search[to] && search[from] > search[to]);
    const errors = wrong.map(([, , , from, to]) => ({ parameter: to, detail: `must not be before ${from}` }));
    if (showErrors(this.element, errors)) return;
    // An agenda has days of its own.
    const hasDays = search.signing_date_from || search.signing_date_to;
    this.#search = isAgenda(search) && hasDays ? { ...search, view: "all" } : search;
    this.#show();
    this.#begin(this.#search);
  }

  #show() {
    const search = this.#search;
    const { activeElement } = document;
    const number = filterCount(search);
    const ofPhone = h("span", { class: "of-phone" }, "Search and filters");
    fill(this.#fold, h("span", { class: "of-desk" }, "Filters"), ofPhone, number > 0 && ` (${number})`);
    const menu = this.#chips.contains(activeElement) && activeElement.closest("details");
    const clear = () => {
      this.#text.value = "";
      this.#change(NONE);
      this.#text.focus();
    };
    this.#chips.replaceChildren(
      ...[
        search.view !== "new" && this.#statuses(),
        this.#dates("signing"),
        this.#dates("created"),
        this.#name("notary", "Notary", "A part of the name"),
        session.isService && this.#name("client", "Client", "The whole name"),
        this.#services.length > 1 && this.#service(),
        isFiltered(search) && button("Clear the filters", clear, { id: "search-clear", class: "quiet" }),
      ].filter(Boolean),
    );
    // A choice in a menu closes it.
    const focused = menu ? `#${menu.id} > summary` : activeElement?.id && `#${CSS.escape(activeElement.id)}`;
    if (focused) document.querySelector(focused)?.focus();
  }

  #statuses() {
    const { statuses } = this.#search;
    const others = statuses.filter((it) => !STATUSES.includes(it));
    const chip = (status) => {
      const isOn = statuses.includes(status);
      const click = () =>
        this.#change({ statuses: isOn ? statuses.filter((it) => it !== status) : [...statuses, status] });
      return button(statusWord(status), click, {
        class: "chip", "aria-pressed": String(isOn), id: `status-${status}`, title: status,
      });
    };
    const other = h("input", { maxlength: 50, dir: "auto" });
    const add = () => {
      const added = other.value.split(",").map((it) => it.trim()).filter(Boolean);
      this.#change({ statuses: [...new Set([...statuses, ...added])] });
    };
    other.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      add();
    });
    return h(
      "div",
      { class: "chips", role: "group", "aria-label": "Status", "data-pointer": "order_status" },
      h("span", { class: "hint", "aria-hidden": "true" }, "Status"),
      [...STATUSES, ...others].map(chip),
      h(
        "details",
        { class: "chip", id: "status-others", ...MENU },
        h("summary", {}, "Other…"),
        h("div", { class: "menu" }, labelled("search-other", "Other status", other), button("Add", add)),
      ),
      h("p", { class: "error" }),
    );
  }

  /** Returns the chip of a name that the orders have. */
  #name(name, title, hint) {
    const value = this.#search[name];
    const list = { notary: "search-notaries", client: "search-clients" }[name];
    const input = h("input", { name, dir: "auto", maxlength: 200, list, value });
    const none = () => this.#change({ [name]: "" });
    return h(
      "details",
      { class: value ? "chip on" : "chip", id: `${name}-chip`, ...MENU },
      h("summary", { id: `${name}-name` }, value ? `${title}: ${value}` : title),
      h(
        "div",
        { class: "menu" },
        labelled(`search-${name}`, `Of this ${title.toLowerCase()}`, input, hint, name),
        h(
          "div",
          { class: "row" },
          h("button", { id: `${name}-apply` }, "Apply"),
          value && button("Any", none, { class: "quiet" }),
        ),
      ),
    );
  }

  /** Returns the choice of a signing service. */
  #service() {
    const value = this.#search.signing_service_id;
    const option = ({ signing_service_id: id, name }) => h("option", { value: id, selected: String(id) === value }, name);
    const change = ({ target }) => this.#change({ signing_service_id: target.value });
    return h(
      "select",
      { class: value ? "chip on" : "chip", id: "search-service", name: "signing_service_id", "aria-label": "Signing service", change },
      h("option", { value: "" }, "Any signing service"),
      this.#services.map(option),
    );
  }

  #dates(kind) {
    const [title, fromLabel, toLabel, fromName, toName] = DATES[kind];
    const { [fromName]: from, [toName]: to } = this.#search;
    const control = (name, value) => h("input", { name, type: "date", max: LAST_DATE, value });
    const set = (first, last) => this.#change({ [fromName]: first, [toName]: last });
    const quick = kind === "signing" ? [["Today", 0], ["Tomorrow", 1]] : [["Today", 0], ["Yesterday", -1]];
    const choice = ([label, days]) =>
      button(label, () => set(dateIn(days), dateIn(days)), { id: `${kind}-${label}`, class: "quiet" });
    const none = (from || to) && button("Any day", () => set("", ""), { id: `${kind}-any`, class: "quiet" });
    const summary = h("summary", { id: `${kind}-dates` }, from || to ? `${title}: ${range(from, to)}` : `${title} dates`);
    return h(
      "details",
      { class: from || to ? "chip on" : "chip", id: `${kind}-chip`, ...MENU },
      summary,
      h(
        "div",
        { class: "menu" },
        h("div", { class: "row" }, quick.map(choice), none),
        labelled(`${kind}-from`, fromLabel, control(fromName, from), null, fromName),
        labelled(`${kind}-to`, toLabel, control(toName, to), null, toName),
        h("div", { class: "row" }, h("button", { id: `${kind}-apply` }, "Apply")),
      ),
    );
  }
}

/** No filter. */
const NONE = {
  search: "", statuses: [], signing_date_from: "", signing_date_to: "", created_from: "", created_to: "", notary: "",
  client: "", signing_service_id: "",
};

/** Keeps the menu of a chip on the screen, and closes it when its user goes elsewhere. */
function place({ target: chip }) {
  if (!chip.open) return;
  const outside = ({ target }) => {
    if (chip.contains(target)) return;
    chip.open = false;
    document.removeEventListener("pointerdown", outside);
  };
  document.addEventListener("pointerdown", outside);
  const menu = chip.lastElementChild;
  menu.style.left = "0";
  const excess = menu.getBoundingClientRect().right + 8 - document.documentElement.clientWidth;
  if (excess > 0) menu.style.left = `${-excess}px`;
}

/** Closes the menu of a chip with Escape. */
function close(event) {
  if (event.key !== "Escape" || !event.currentTarget.open) return;
  event.currentTarget.open = false;
  event.currentTarget.firstElementChild.focus();
}

/** Closes the menu of a chip when the focus leaves it. */
function leave({ currentTarget: chip, relatedTarget: to }) {
  if (to && !chip.contains(to)) chip.open = false;
}

const MENU = { name: "chips", toggle: place, keydown: close, focusout: leave };

function range(from, to) {
  if (from === to) return dayInWords(from);
  if (!to) return `from ${dayInWords(from)}`;
  if (!from) return `until ${dayInWords(to)}`;
  return `${dayInWords(from)} – ${dayInWords(to)}`;
}
