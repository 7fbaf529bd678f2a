/*
 * Cookies (RFC 6265), as far as one session needs them.
 */

export interface CookieOptions {
  name: string
  value: string
  /** Begins and ends with a slash. */
  path: string
  isSecure: boolean
  /** Seconds the browser keeps it; null: until the browser is closed; 0: removes it. */
  maxAgeSeconds: number | null
}

/** Browsers limit a header to a few kilobytes; a longer one is not read. */
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
