import { invalid } from '../base/errors.js'
import type { ApiRequest } from './route.js'

/** The header with the id that a client gives its request, to find the deployment later (`GET /api/logs?traceId=`). */
const header = 'X-Svc-Trace-Id'
const form = /^[\x21-\x7e]{1,200}$/

/** Returns the id that the client gave the request; null if it gave none. Refuses: 400 naming the header. */
export function traceIdOf({ headers }: Pick<ApiRequest, 'headers'>): string | null {
  const given = headers[header.toLowerCase()]
  if (given === undefined || given === '') return null
  if (typeof given === 'string' && form.test(given)) return given
  throw invalid(header, `"${header}" is invalid: expected at most 200 visible ASCII characters without spaces`)
}
