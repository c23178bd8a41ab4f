// The signing services by name.

import { Failure, nextPage, request } from "./api.js";

/** Returns the signing services that the key may name. */
export async function allServices() {
  const services = [];
  try {
    for (let address = "api/services?limit=100"; address; ) {
      const { body, headers } = await request(address);
      services.push(...body.data);
      address = nextPage(headers);
    }
  } catch (failure) {
    // The user can still enter the number.
    if (!(failure instanceof Failure)) throw failure;
  }
  return services;
}
