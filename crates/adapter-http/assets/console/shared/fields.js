// The fields of an order, grouped as people think of a signing. The form and the view of an order
// share this list. The service alone knows the rules of the fields.

const CONTACTS = "/signingContactsFormData";
const DETAILS = "/signingDetailsFormData";

/** A field: where it stands in the request, its label, and how it is shown. */
const field = (pointer, label, more = {}) => ({ pointer, label, kind: "text", ...more });
const required = true;

const person = (pointer, who) => [
  field(`${pointer}/contact_name`, `${who}: name`),
  field(`${pointer}/contact_phone`, `${who}: phone`, { kind: "tel" }),
  field(`${pointer}/contact_email`, `${who}: e-mail`, { kind: "email" }),
];

/** Who orders. Without another number it is the user who is signed in. */
export const ORDERED_BY = "/requestedBy/userId";

/** Whom the confirmation goes to. */
export const CONTACT = `${CONTACTS}/orderContactEmail`;

const TIME_TYPE = `${DETAILS}/signingTimeType`;
export const STATE = `${DETAILS}/state`;
export const ZIP_CODE = `${DETAILS}/zipcode`;
export const SIGNING_STATE = `${DETAILS}/signingState`;
export const SIGNING_ZIP_CODE = `${DETAILS}/signingZipcode`;
export const SAME_ADDRESS = `${DETAILS}/isPropertyAddressSame`;
const at = { if: [TIME_TYPE, "at"] };
const between = { if: [TIME_TYPE, "between"] };
const elsewhere = { if: [SAME_ADDRESS, false] };

/** An instant: shown only if the local time of `twice` occurs twice. */
const instant = (pointer, label, twice, more) =>
  field(pointer, label, {
    kind: "instant",
    isLong: true,
    twice: `${DETAILS}/${twice}`,
    hint: "The clocks are put back on this date, so this time occurs twice. Without a choice it is the first.",
    ...more,
  });

/** The groups. One that is not open says what it holds, and opens if it is filled or at fault. */
export const GROUPS = [
  {
    title: "File",
    isOpen: true,
    fields: [
      field(`${DETAILS}/fileNumber`, "File or loan number", { required }),
      field(`${DETAILS}/signingType`, "Type of signing", {
        required,
        choices: ["Refinance", "Purchase", "HELOC", "Seller", "Loan modification", "Reverse mortgage"],
      }),
      field(`${DETAILS}/lender`, "Lender"),
      field(`${CONTACTS}/clientCompanyId`, "Client company number", { kind: "id", hint: "In your own system" }),
      field(CONTACT, "Order contact: e-mail", {
        kind: "email",
        required,
        hint: "Gets the confirmation",
      }),
    ],
  },
  {
    title: "Signing service",
    isOpen: true,
    fields: [
      field("/signingServiceId", "Signing service", { kind: "service", required }),
    ],
  },
  {
    title: "Signer",
    isOpen: true,
    fields: [
      field(`${DETAILS}/signerName`, "Signer: full name", { required }),
      field(`${DETAILS}/signerPhone`, "Signer: phone", { kind: "tel", required }),
      field(`${DETAILS}/signerEmail`, "Signer: e-mail", { kind: "email", required }),
      field(`${DETAILS}/spouseName`, "Signer: spouse’s name"),
      field(`${DETAILS}/language`, "Language", { hint: "English (en) if empty" }),
    ],
  },
  {
    title: "Appointment",
    isOpen: true,
    fields: [
      field(`${DETAILS}/signingDate`, "Date of the signing", { kind: "date", required, isAdvised: true }),
      field(`${DETAILS}/timeZoneId`, "Time zone", { kind: "zone", required, isAdvised: true }),
      field(TIME_TYPE, "Time of the signing", {
        kind: "radio",
        required,
        initial: "at",
        options: [
          ["at", "At a time"],
          ["between", "Between two times"],
          ["anytime", "Any time of the day"],
        ],
      }),
      field(`${DETAILS}/specificTime`, "Time", { kind: "time", required, ...at }),
      instant("/utcTimeDate", "Time in UTC", "specificTime", at),
      field(`${DETAILS}/startTime`, "Earliest time", { kind: "time", required, ...between }),
      instant("/utcStartTimeDate", "Earliest time in UTC", "startTime", between),
      field(`${DETAILS}/endTime`, "Latest time", { kind: "time", required, ...between }),
      instant("/utcEndTimeDate", "Latest time in UTC", "endTime", between),
    ],
  },
  {
    title: "Property and place of the signing",
    isOpen: true,
    fields: [
      field(`${DETAILS}/propertyAddress`, "Property: address", { required, isLong: true }),
      field(`${DETAILS}/city`, "Property: city", { required }),
      field(STATE, "Property: state", { required, hint: "Two letters, such as TX" }),
      field(ZIP_CODE, "Property: ZIP code", { required, hint: "Five digits", isAdvised: true }),
      field(SAME_ADDRESS, "The signing is at the property", {
        kind: "checkbox",
        initial: true,
      }),
      field(`${DETAILS}/signingAddress`, "Signing: address", { ...elsewhere, isLong: true }),
      field(`${DETAILS}/signingCity`, "Signing: city", elsewhere),
      field(SIGNING_STATE, "Signing: state", elsewhere),
      field(SIGNING_ZIP_CODE, "Signing: ZIP code", { ...elsewhere, isAdvised: true }),
    ],
  },
  {
    title: "Co-signer",
    holds: "name, phone, e-mail, spouse",
    fields: [
      field(`${DETAILS}/coSignerName`, "Co-signer: full name"),
      field(`${DETAILS}/coSignerPhone`, "Co-signer: phone", { kind: "tel" }),
      field(`${DETAILS}/coSignerEmail`, "Co-signer: e-mail", { kind: "email" }),
      field(`${DETAILS}/coSignerSpouseName`, "Co-signer: spouse’s name"),
    ],
  },
  {
    title: "Delivery",
    holds: "of the documents, scanbacks, e-signing, RON",
    fields: [
      field(`${DETAILS}/documentDelivery`, "Delivery of the documents"),
      field(`${DETAILS}/esigningPlatform`, "E-signing platform"),
      field(`${DETAILS}/scanbacksRequired`, "Scanbacks are required", { kind: "checkbox" }),
      field(`${DETAILS}/ronSigning`, "Remote online notarization (RON)", { kind: "checkbox" }),
    ],
  },
  {
    title: "Fees",
    holds: "invoice, pay of the notary",
    fields: [
      field(`${DETAILS}/invoiceFee`, "Invoice amount", { kind: "amount", hint: "Such as 150.50" }),
      field(`${DETAILS}/notaryPay`, "Pay of the notary", { kind: "amount" }),
      field(`${DETAILS}/invoiceName`, "Invoice: contact’s name"),
      field(`${DETAILS}/invoicePhone`, "Invoice: phone", { kind: "tel" }),
      field(`${DETAILS}/invoiceEmail`, "Invoice: e-mail", { kind: "email" }),
      field(`${DETAILS}/invoiceOrderTo/company_name`, "Invoice to: company"),
      field(`${DETAILS}/invoiceOrderTo/invoice_address`, "Invoice to: address", { isLong: true }),
      field(`${DETAILS}/invoiceOrderTo/city`, "Invoice to: city"),
      field(`${DETAILS}/invoiceOrderTo/state`, "Invoice to: state"),
      field(`${DETAILS}/invoiceOrderTo/zipcode`, "Invoice to: ZIP code"),
    ],
  },
  {
    title: "Contacts",
    holds: "in-house, loan officer, observer, ordered by",
    fields: [
      ...person(`${CONTACTS}/inHouseContact`, "In-house contact"),
      ...person(`${CONTACTS}/inHouseContact2`, "Second in-house contact"),
      ...person(`${DETAILS}/loanOfficer`, "Loan officer"),
      field(`${CONTACTS}/observer`, "Observer: e-mail", { kind: "email" }),
      field(ORDERED_BY, "Ordered by: user number", { kind: "id", hint: "In your own system; else yours here" }),
      field("/requestedBy/userRole", "Ordered by: role", { hint: "Such as escrow officer" }),
      field("/requestedBy/signingServiceId", "Ordered by: signing service number", {
        kind: "id",
        hint: "If a signing service orders for you",
      }),
    ],
  },
  {
    title: "Instructions",
    holds: "for the notary",
    fields: [
      field(`${DETAILS}/specialInstructions`, "Instructions for the notary", {
        kind: "lines",
        wide: true,
      }),
    ],
  },
];

export const FIELDS = GROUPS.flatMap((group) => group.fields);

/** The fields of an appointment, and the instants that the service computes from them. */
export const TIMES = [
  "signingDate", "timeZoneId", "signingTimeType", "specificTime", "startTime", "endTime",
].map((name) => `${DETAILS}/${name}`);
export const INSTANTS = ["/utcTimeDate", "/utcStartTimeDate", "/utcEndTimeDate"];

/** The fields of the place of the signing, and those of the property, where the signing usually is. */
export const OF_PLACE = [
  SAME_ADDRESS, `${DETAILS}/signingAddress`, `${DETAILS}/signingCity`, SIGNING_STATE, SIGNING_ZIP_CODE,
];
export const OF_PROPERTY = [`${DETAILS}/propertyAddress`, `${DETAILS}/city`, STATE, ZIP_CODE];

export const [SIGNING_DATE, TIME_ZONE] = TIMES;
export const FILE_NUMBER = `${DETAILS}/fileNumber`;

/** The fields that the next order of the same user has, too. */
export const KEPT = FIELDS.filter(
  ({ pointer }) =>
    pointer.startsWith("/requestedBy/") ||
    ["/signingServiceId", `${CONTACTS}/clientCompanyId`, CONTACT].includes(pointer),
);

/** Returns the field of a pointer. */
export const fieldOf = (pointer) => FIELDS.find((it) => it.pointer === pointer);

/** Returns the member of an object that a pointer names. */
export const member = (object, pointer) =>
  pointer.slice(1).split("/").reduce((inner, name) => inner?.[name], object);

/** Sets the member of an object that a pointer names; `undefined` removes it. */
export function setMember(object, pointer, value) {
  const names = pointer.slice(1).split("/");
  const last = names.pop();
  for (const name of names) object = object[name] ??= {};
  if (value === undefined) delete object[last];
  else object[last] = value;
}
