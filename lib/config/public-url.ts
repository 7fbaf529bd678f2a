import { Refusal } from '../base/refusal.js'
import type { Environment } from './home.js'

/**
 * `SVC_PUBLIC_URL`: under which address people reach the server, for links that it sends and shows; without a slash at
 * its end. Null where it is not set. `base` as `normaliseBase` gives it: the panel looks for everything below it, so an
 * address with another path could not work. Refuses: 400 `invalid_public_url`.
 */
export function readPublicUrl(environment: Environment, base: string): string | null {
  const text = environment['SVC_PUBLIC_URL']?.trim() ?? ''
  if (text === '') return null
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

function refuse(text: string, why: string): Refusal {
  return new Refusal('invalid', 'invalid_public_url', `SVC_PUBLIC_URL "${text}" cannot be used: ${why}`, { field: 'SVC_PUBLIC_URL' })
}
