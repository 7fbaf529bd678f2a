import { Refusal } from '../../base/refusal.js'

/**
 * Normalises the base path of the server (§4.1): `a`, `/a` and `/a/` become `/a`; several levels are allowed; an empty
 * text or `/` becomes the empty text. Refuses a prefix that would need encoding in an address.
 */
export function normaliseBase(text: string): string {
  const segments = text.split('/').filter(segment => segment !== '')
  for (const segment of segments) {
    if (!/^[\w~.-]+$/.test(segment) || segment === '.' || segment === '..') {
      const sentence = `Invalid base path "${text}": each segment may contain letters, digits and - . _ ~`
      throw new Refusal('usage', 'invalid_base', sentence, { field: '--base' })
    }
  }
  return segments.map(segment => `/${segment}`).join('')
}

/**
 * Returns the path below the base, with a leading slash. Returns an empty text for the base itself, and undefined for a
 * path outside of it.
 */
export function belowBase(base: string, path: string): string | undefined {
  if (base === '') return path
  if (!path.startsWith(base)) return undefined
  const below = path.slice(base.length)
  return below === '' || below.startsWith('/') ? below : undefined
}
