import { Refusal } from '../base/errors.js'
import type { Environment } from './home.js'

/**
 * Reads `SVC_PUBLIC_URL`, the address under which people reach the server. The server uses it in links. Returns it
 * without a trailing slash, or null if it is not set. Refuses like `checkPublicUrl`.
 */
export function readPublicUrl(environment: Environment, base: string): string | null {
  const text = environment['SVC_PUBLIC_URL']?.trim() ?? ''
  return text === '' ? null : checkPublicUrl(text, { base, name: 'SVC_PUBLIC_URL', kind: 'invalid' })
}

/**
 * Checks a public address and returns it without a trailing slash. `base` is the value of --base as `normaliseBase`
 * returns it: the panel loads everything below it, so an address with another path would not work. `name` is the source
 * of the address. Refuses `invalid_public_url` with the given kind.
 */
export function checkPublicUrl(
  text: string,
  { base, name, kind }: { base: string; name: string; kind: 'invalid' | 'usage' }
): string {
  const refuse = (shown: string, why: string): Refusal =>
    new Refusal(kind, 'invalid_public_url', `${name} "${shown}" is not valid: ${why}`, { field: name })
  const url = parse(text)
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw refuse(shown(text, url), 'use an address like "https://deploy.example.org"')
  }
  if (url.username !== '' || url.password !== '')
    throw refuse(shown(text, url), 'it must not contain a user name or password')
  if (/[?#]/.test(text)) throw refuse(shown(text, url), 'it must not contain "?" or "#"')
  const path = url.pathname.replace(/(?<!\/)\/+$/, '')
  if (path !== base) {
    const right =
      base === ''
        ? 'it must have no path, because the server has no --base'
        : `its path must be that of --base, "${base}"`
    throw refuse(shown(text, url), right)
  }
  return `${url.origin}${path}`
}

function parse(text: string): URL | null {
  try {
    return new URL(text)
  } catch {
    return null
  }
}

/** Removes the parts that may contain a password. */
function shown(text: string, url: URL | null): string {
  return url === null ? text.replace(/\/\/[^/]*@/, '//') : `${url.protocol}//${url.host}${url.pathname}`
}
