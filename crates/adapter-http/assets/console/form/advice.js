// Advice on what the user enters: an unusual date, and the time zone of the place of the signing.

import { dateHint, todayIn } from "./calendar.js";
import {
  SAME_ADDRESS, SIGNING_DATE, SIGNING_STATE, SIGNING_ZIP_CODE, STATE, TIME_ZONE, ZIP_CODE, fieldOf,
} from "../shared/fields.js";
import { isInState, zoneOf } from "./places.js";
import { zoneName } from "../shared/zones.js";

export class Advice {
  #entries;
  /** The zone that was proposed last, or agrees with the place. Another one that the user chooses stays. */
  #proposed = null;

  constructor(entries) {
    this.#entries = entries;
    for (const event of ["input", "change"]) entries.element.addEventListener(event, () => this.refresh());
  }

  refresh() {
    this.#entries.note(fieldOf(TIME_ZONE), this.#zone());
    for (const place of [[STATE, ZIP_CODE], [SIGNING_STATE, SIGNING_ZIP_CODE]]) {
      const [state, zipCode] = this.#place(place);
      const far = `No ZIP code of ${state} begins with ${zipCode[0]}: check it.`;
      this.#entries.note(fieldOf(place[1]), isInState(state, zipCode) ? "" : far);
    }
    const [date, zone] = [SIGNING_DATE, TIME_ZONE].map((it) => this.#text(it));
    this.#entries.note(fieldOf(SIGNING_DATE), dateHint(date, todayIn(zone || undefined)));
  }

  #text(pointer) {
    return this.#entries.text(fieldOf(pointer));
  }

  /** Returns the state and the ZIP code in the fields with these pointers. */
  #place(pointers) {
    return pointers.map((it) => this.#text(it).toUpperCase());
  }

  /** Proposes the zone of the place. Returns what to say of it. */
  #zone() {
    const isElsewhere = this.#text(SAME_ADDRESS) === "false" && this.#text(SIGNING_STATE);
    const [state, zipCode] = this.#place(isElsewhere ? [SIGNING_STATE, SIGNING_ZIP_CODE] : [STATE, ZIP_CODE]);
    const found = zoneOf(state, zipCode);
    if (!found) return "";
    const chosen = this.#text(TIME_ZONE);
    if (chosen !== found.zone && (!chosen || chosen === this.#proposed)) {
      this.#entries.set(fieldOf(TIME_ZONE), found.zone);
      this.#entries.showConditional();
    }
    const isTaken = this.#text(TIME_ZONE) === found.zone;
    if (isTaken) this.#proposed = found.zone;
    const place = `${state} ${zipCode}`.trim();
    const two = found.other && `${state} has two time zones, the other is ${shortName(found.other)}: check it.`;
    return [
      isTaken ? `${shortName(found.zone)} is usual for ${place}.` : `${place} is usually in ${shortName(found.zone)}.`,
      !found.isSure && two,
    ].filter(Boolean).join(" ");
  }
}

/** Returns the name of a zone without its identifier, such as Central time. */
const shortName = (zone) => zoneName(zone).split(" (")[0];
