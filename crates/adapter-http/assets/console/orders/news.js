// Tells of orders that have come: a bar above every view, the number in the title, and a sound if its user likes it.

import { Failure, request, session } from "../shared/api.js";
import { announce, button, count, fill, setTitle } from "../shared/dom.js";
import { sound } from "../shared/draft.js";

/** Seconds between two questions: while the page is seen, and while it is hidden. */
const [PERIOD, HIDDEN_PERIOD] = [10, 60];

/** Orders of an answer, and answers after which the rest waits for the next question. */
const [PAGE, MOST_PAGES] = [100, 10];

/** Orders that are remembered one by one. When more come, the page goes on at the newest one. */
const MOST = 1_000;

/** The orders that have come, and that the user has neither opened nor asked for; and newer ones that the user knows. */
const [fresh, known] = [new Set(), new Set()];

/** Shows how many orders there are. */
let show = () => {};

/** Learns that the user knows an order: it was opened, or created here. */
export function forgetNew(id) {
  known.add(String(id));
  if (fresh.delete(String(id))) show();
}

export class News {
  #terms = null;
  /** The newest order that is known; `null` before the first answer. */
  #newest = null;
  #timer = null;
  #place = document.getElementById("news");

  /** `open` gets the newest order that has come, and shows it in its list. */
  constructor(open) {
    const go = () => {
      const newest = [...fresh].at(-1);
      fresh.clear();
      show();
      open(newest);
    };
    show = () => {
      setTitle(undefined, fresh.size);
      const number = fresh.size < MOST ? count(fresh.size, "new order") : `${MOST.toLocaleString("en-US")} or more new orders`;
      fill(this.#place, fresh.size > 0 && button(`Show ${number}`, go, { id: "news-show" }));
    };
    document.addEventListener("visibilitychange", () => this.#terms && this.#wait(document.hidden ? HIDDEN_PERIOD : 0));
  }

  /** Follows the orders of the user who is signed in. */
  follow() {
    const terms = session.may("orders:read") ? session.terms : null;
    if (owner(terms) === owner(this.#terms)) return;
    this.#terms = terms;
    this.#newest = null;
    fresh.clear();
    known.clear();
    show();
    clearTimeout(this.#timer);
    if (terms) this.#ask();
  }

  #wait(seconds) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#ask(), seconds * 1000);
  }

  async #ask() {
    const terms = this.#terms;
    let wait = document.hidden ? HIDDEN_PERIOD : PERIOD;
    try {
      if (this.#newest === null) {
        const { body } = await request("api/order?limit=1");
        if (terms !== this.#terms) return;
        this.#newest = body.data[0]?.order_id ?? 0;
      } else {
        await this.#learn(terms);
      }
    } catch (failure) {
      if (!(failure instanceof Failure)) throw failure;
      // The list says what is wrong. A cursor that the service does not know any more is asked for again.
      if (failure.status === 400) this.#newest = null;
      if ([401, 403].includes(failure.status)) wait = HIDDEN_PERIOD;
      wait = Math.max(wait, failure.retryAfter);
    }
    if (terms === this.#terms && terms) this.#wait(wait);
  }

  /** Reads the orders that have come. */
  async #learn(terms) {
    const before = fresh.size;
    for (let page = 0, hasMore = true; hasMore && page < MOST_PAGES; page++) {
      const { body } = await request(`api/order?limit=${PAGE}&ending_before=${this.#newest}`);
      if (terms !== this.#terms) return;
      const ids = body.data.map((it) => String(it.order_id)).reverse();
      for (const id of ids) if (!known.delete(id)) fresh.add(id);
      this.#newest = body.data[0]?.order_id ?? this.#newest;
      hasMore = body.has_more;
    }
    for (const id of known) if (Number(id) <= this.#newest) known.delete(id);
    if (fresh.size >= MOST) {
      for (const id of [...fresh].slice(0, fresh.size - MOST)) fresh.delete(id);
      // The next question begins at the newest order.
      this.#newest = null;
    }
    if (fresh.size <= before) return;
    show();
    announce(`${count(fresh.size, "new order")}.`);
    if (sound.read()) chime();
  }
}

const owner = (terms) => terms && JSON.stringify([terms.party, terms.client_id, terms.signing_service_id, terms.is_test]);

let audio = null;

/** Plays two short tones. */
function chime() {
  audio ??= new AudioContext();
  audio.resume();
  [660, 880].forEach((frequency, at) => {
    const [tone, loudness] = [audio.createOscillator(), audio.createGain()];
    const start = audio.currentTime + at * 0.18;
    tone.frequency.value = frequency;
    loudness.gain.setValueAtTime(0.15, start);
    loudness.gain.exponentialRampToValueAtTime(0.001, start + 0.3);
    tone.connect(loudness).connect(audio.destination);
    tone.start(start);
    tone.stop(start + 0.3);
  });
}

/** Returns the button that turns the sound on and off. */
export function soundButton() {
  const isOn = () => sound.read() === true;
  const label = () => (isOn() ? "Sound: on" : "Sound: off");
  const turn = () => {
    if (isOn()) sound.clear();
    else sound.write(true);
    it.textContent = label();
    it.setAttribute("aria-pressed", isOn());
    // The browser lets a page make a sound once its user has asked for one.
    if (isOn()) chime();
  };
  const it = button(label(), turn, { class: "quiet", "aria-pressed": String(isOn()), title: "A sound when orders come" });
  return it;
}
