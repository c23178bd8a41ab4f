// The details of an order in the order in which a dispatcher reads them aloud. Empty fields are not shown.

import { card, h } from "../shared/dom.js";
import { FIELDS, INSTANTS, TIMES, member } from "../shared/fields.js";
import { inWords } from "../shared/words.js";

/** The sections: title, and the ends of the pointers of their fields. The last one has what no other has. */
const SECTIONS = [
  ["Papers", /documentDelivery|esigningPlatform|scanbacksRequired|ronSigning/],
  ["Fees and invoice", /\/(invoice|notaryPay)/],
  ["Contacts", /orderContactEmail|observer|inHouseContact|loanOfficer/],
  ["Signers", /[sS]igner(Email|SpouseName)|spouseName|language/],
  ["File", /./],
];

/** What the head of the order shows. */
const IN_HEAD =
  /\/(fileNumber|signingType|signerName|signerPhone|coSignerName|coSignerPhone|isPropertyAddressSame|specialInstructions|signing(Address|City|State|Zipcode))$|^\/signingServiceId$/;

/** The property, which the head shows if the signing is there. */
const OF_PROPERTY = /\/(propertyAddress|city|state|zipcode)$/;

/** Returns the card of the details. */
export function details(order) {
  const { signingDetailsFormData: signing } = order.details;
  const isShown = ({ pointer }) =>
    !IN_HEAD.test(pointer) &&
    ![...TIMES, ...INSTANTS].includes(pointer) &&
    !(signing.isPropertyAddressSame !== false && OF_PROPERTY.test(pointer) && !pointer.includes("invoice"));
  const left = FIELDS.filter(isShown)
    .map((field) => [field, member(order.details, field.pointer)])
    .filter(([, value]) => value !== undefined && value !== null);
  const sections = SECTIONS.map(([title, ends]) => {
    const own = left.filter(([{ pointer }]) => ends.test(pointer));
    for (const it of own) left.splice(left.indexOf(it), 1);
    return own.length && [h("h3", {}, title), h("dl", { class: "pairs" }, own.map(entry))];
  });
  return card("Details", sections.filter(Boolean));
}

const entry = ([field, value]) =>
  h("div", {}, h("dt", {}, field.label), h("dd", {}, inWords(field, value)));
