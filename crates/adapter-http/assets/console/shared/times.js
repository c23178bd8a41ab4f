// Days and times of signings: in the zone of the signing, and beside it in that of the browser.

import { h } from "./dom.js";

/** The last date of a field: without it, a year typed into the field may have six digits. */
export const LAST_DATE = "9999-12-31";

/** Returns the day that is some days after today in the zone of the browser, such as 2026-12-01. */
export function dateIn(days) {
  const now = new Date();
  const date = new Date(now.getFullYear(), now.getMonth(), now.getDate() + days);
  const text = (number, digits) => String(number).padStart(digits, "0");
  return `${text(date.getFullYear(), 4)}-${text(date.getMonth() + 1, 2)}-${text(date.getDate(), 2)}`;
}

/** Returns the instant at which a day begins in the zone of the browser, some days later. */
export function midnight(date, days = 0) {
  const [year, month, day] = date.split("-").map(Number);
  const at = new Date(year, month - 1, day + days);
  return Number.isNaN(at.getTime()) ? "" : at.toISOString();
}

/** Returns how long ago an instant was, in words. */
export function ago(iso) {
  const minutes = Math.max(0, Math.floor((Date.now() - Date.parse(iso)) / 60_000));
  if (minutes < 1) return "just now";
  const units = [[1440, "day"], [60, "hour"], [1, "minute"]];
  const [size, unit] = units.find(([size]) => minutes >= size);
  const number = Math.floor(minutes / size);
  return `${number} ${unit}${number === 1 ? "" : "s"} ago`;
}

/** Returns a day in words: with its year if that is another one. */
export function dayInWords(date, weekday = "short", month = "short") {
  const noon = new Date(`${date}T12:00:00`);
  if (Number.isNaN(noon.getTime())) return date;
  const year = noon.getFullYear() === new Date().getFullYear() ? undefined : "numeric";
  return noon.toLocaleDateString("en-US", { weekday, month, day: "numeric", year });
}

/** Returns a day as people say it: today, tomorrow, or its name. */
export function dayHeading(date) {
  const near = { [dateIn(0)]: "Today, ", [dateIn(1)]: "Tomorrow, " }[date] ?? "";
  return near + dayInWords(date, "long", "long");
}

/** Returns a time such as 14:30 as people in the US write it. */
export function clock(time) {
  const [hour, minute] = time.split(":");
  return `${hour % 12 || 12}:${minute} ${hour < 12 ? "AM" : "PM"}`;
}

/** Returns the parts of an instant in a zone; `undefined` is the zone of the browser. */
function parts(iso, timeZone) {
  const options = {
    timeZone, month: "short", day: "numeric", hour: "numeric", minute: "2-digit", timeZoneName: "short",
  };
  try {
    const all = new Intl.DateTimeFormat("en-US", options).formatToParts(new Date(iso));
    return Object.fromEntries(all.map(({ type, value }) => [type, value]));
  } catch {
    // The browser does not know the zone.
    return null;
  }
}

/** Returns the short name of a zone at an instant, such as CST. */
const zoneAt = (iso, zone) => (iso && parts(iso, zone)?.timeZoneName) ?? zone;

/** Returns the time of a signing in its zone. */
export function timeOf({ appointment: { starts_at: starts, start_time: start, end_time: end, time_zone_id: zone } }) {
  if (!start) return "any time";
  return `${clock(start)}${end ? ` to ${clock(end)}` : ""} ${zoneAt(starts, zone)}`;
}

/** Returns the time of a signing for the user of the browser; `null` if the clocks there show the same. */
export function ownTimeOf({ appointment: { starts_at: starts, time_zone_id: zone } }) {
  const [there, here] = [starts && parts(starts, zone), starts && parts(starts)];
  if (!there || !here) return null;
  const isSameDay = there.month === here.month && there.day === here.day;
  if (isSameDay && ["hour", "minute", "dayPeriod"].every((it) => there[it] === here[it])) return null;
  const day = isSameDay ? "" : `${here.month} ${here.day}, `;
  return `${day}${here.hour}:${here.minute} ${here.dayPeriod} ${here.timeZoneName}`;
}

/** Returns the time of a signing, with the day if it is asked for. */
export function signingTime(order, { withDay = false } = {}) {
  const day = withDay ? `${dayInWords(order.signing_date)}, ` : "";
  const own = ownTimeOf(order);
  const { appointment, signing_date: date } = order;
  return [
    h("time", { datetime: appointment.starts_at ?? date }, day + timeOf(order)),
    own && h("span", { class: "own" }, ` (${own})`),
  ];
}
