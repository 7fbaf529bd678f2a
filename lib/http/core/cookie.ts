/*
 * Cookies (RFC 6265), only what one session needs.
 */

/** A cookie to set. */
export interface CookieOptions {
  name: string
  value: string
  /** Path of the cookie. Begins and ends with a slash. */
  path: string
  isSecure: boolean
  /** How long the browser keeps the cookie, in seconds. Null: until the browser is closed. 0: removes it. */
  maxAgeSeconds: number | null
}

/** A longer header is not read. Browsers limit a header to a few kilobytes. */
const maxHeaderLength = 16 * 1024

/** Returns the values of every cookie with one of these names, in the browser's order. */
export function cookiesOf(header: string | undefined, names: readonly string[]): string[] {
  if (header === undefined || header.length > maxHeaderLength) return []
  return header.split(';').flatMap(pair => {
    const at = pair.indexOf('=')
    return at > 0 && names.includes(pair.slice(0, at).trim()) ? [pair.slice(at + 1).trim()] : []
  })
}

/** Returns the value of Set-Cookie for a cookie that scripts cannot read and other sites cannot use. */
export function setCookie({ name, value, path, isSecure, maxAgeSeconds }: CookieOptions): string {
  const age = maxAgeSeconds === null ? '' : `; Max-Age=${maxAgeSeconds}`
  return `${name}=${value}; Path=${path}${age}; HttpOnly; SameSite=Strict${isSecure ? '; Secure' : ''}`
}
