import type { IncomingHttpHeaders } from 'node:http'

/*
 * Detects which page caused a request, from headers that the browser itself writes (Fetch Metadata).
 *
 * SameSite=Strict keeps a cookie out of requests of other sites. A site is a registrable domain: another port of this
 * host, or another name of its domain, is the same site, and its pages can send requests with the cookie. They cannot
 * read the answers, but they can measure them. Sec-Fetch-Site identifies these pages. Browsers send it over TLS and to
 * localhost.
 */

/**
 * A header of the panel's own requests. A page of another origin could send it only after a preflight, which svc
 * refuses.
 */
export const panelHeader = 'x-svc-panel'

/** Whether the browser says that a page of another origin caused the request. */
export function isFromOtherOrigin(headers: IncomingHttpHeaders): boolean {
  const site = headers['sec-fetch-site']
  return site !== undefined && site !== 'same-origin' && site !== 'none'
}

/**
 * Whether the answer may contain what another origin's page must not measure: the request has a cookie, no bearer token
 * (which a page would have to know), and no proof that the panel sent it.
 */
export function isMeasurable(headers: IncomingHttpHeaders): boolean {
  if (headers.cookie === undefined || headers.authorization !== undefined) return false
  return headers['sec-fetch-site'] !== 'same-origin' && headers[panelHeader] === undefined
}
