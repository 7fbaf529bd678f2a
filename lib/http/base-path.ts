import { Refusal } from '../base/refusal.js'

/**
 * The prefix under which everything lives (§4.1), in its one spelling: `a`, `/a` and `/a/` give `/a`, several levels
 * are allowed, nothing or `/` gives the empty text. Refuses a prefix that would need encoding in an address.
 */
export function normaliseBase(text: string): string {
  const segments = text.split('/').filter(segment => segment !== '')
  for (const segment of segments) {
    if (!/^[\w~.-]+$/.test(segment) || segment === '.' || segment === '..') {
      const sentence = `The base "${text}" cannot be a path prefix: its segments are letters, digits and - . _ ~`
      throw new Refusal('usage', 'invalid_base', sentence, { field: '--base' })
    }
  }
  return segments.map(segment => `/${segment}`).join('')
}

/** The path below the base, beginning with a slash; empty when it is the base itself; undefined when it is outside. */
export function belowBase(base: string, path: string): string | undefined {
  if (base === '') return path
  if (!path.startsWith(base)) return undefined
  const below = path.slice(base.length)
  return below === '' || below.startsWith('/') ? below : undefined
}
