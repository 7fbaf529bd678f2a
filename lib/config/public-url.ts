import { Refusal } from '../base/refusal.js'
import type { Environment } from './home.js'

/**
 * `SVC_PUBLIC_URL`: under which address people reach the server, for links that it sends and shows; without a slash at
 * its end. Null where it is not set. Refuses as `checkPublicUrl`.
 */
export function readPublicUrl(environment: Environment, base: string): string | null {
  const text = environment['SVC_PUBLIC_URL']?.trim() ?? ''
  return text === '' ? null : checkPublicUrl(text, { base, name: 'SVC_PUBLIC_URL', kind: 'invalid' })
}

/**
 * The address as it is used, without a slash at its end. `base` as `normaliseBase` gives it: the panel looks for
 * everything below it, so an address with another path could not work. `name`: where the address was given. Refuses
 * with this kind: `invalid_public_url`.
 */
export function checkPublicUrl(text: string, { base, name, kind }: { base: string; name: string; kind: 'invalid' | 'usage' }): string {
  const refuse = (shown: string, why: string): Refusal =>
    new Refusal(kind, 'invalid_public_url', `${name} "${shown}" cannot be used: ${why}`, { field: name })
  const url = parse(text)
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw refuse(shown(text, url), 'it is an address like "https://deploy.example.org"')
  }
  if (url.username !== '' || url.password !== '') throw refuse(shown(text, url), 'it must not hold a name or a password')
  if (/[?#]/.test(text)) throw refuse(shown(text, url), 'it ends with its path, without "?" and "#"')
  const path = url.pathname.replace(/\/+$/, '')
  if (path !== base) {
    const right = base === '' ? 'the server has no --base, so it must have no path' : `its path must be that of --base, "${base}"`
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

/** Without what may be a password. */
function shown(text: string, url: URL | null): string {
  return url === null ? text.replace(/\/\/[^/]*@/, '//') : `${url.protocol}//${url.host}${url.pathname}`
}
