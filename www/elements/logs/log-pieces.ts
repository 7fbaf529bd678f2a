import type { Span } from './ansi.js'

/* Finds the links and the search hits in a line. Pure. */

/** A part of a text, by character offsets. */
export interface Stretch {
  from: number
  to: number
}

/** A part of a line with one style. `href`: the address it links to. `isHit`: it matches the search. */
export interface Piece extends Span {
  href: string | null
  isHit: boolean
}

/**
 * http and https only. A trailing punctuation mark, or a closing bracket without its opening bracket, is not part of
 * the link.
 */
const link = /\bhttps?:\/\/[^\s<>"'`\\^{}|\u0000-\u001f]+/gi
const closers: Readonly<Record<string, string>> = { ')': '(', ']': '[' }
/** Limit for the searched characters: a pathological expression or line must not block the page. */
const maxSearched = 5000
const maxHits = 200

/** Returns the links in a text. */
export function linksIn(text: string): Stretch[] {
  if (!text.includes('://')) return []
  return [...text.matchAll(link)].map(({ 0: found, index }) => ({ from: index, to: index + lengthOf(found) }))
}

function lengthOf(address: string): number {
  let end = address.length
  for (; end > 0; end--) {
    const last = address[end - 1] as string
    const opener = closers[last]
    if (opener !== undefined) {
      const inside = address.slice(0, end)
      if (inside.split(opener).length >= inside.split(last).length) return end
    } else if (!/[.,;:!?*_~]/.test(last)) {
      return end
    }
  }
  return end
}

/** Returns the matches of the pattern, which must be global. Ignores empty matches. */
export function hitsIn(text: string, pattern: RegExp): Stretch[] {
  const found: Stretch[] = []
  for (const { 0: hit, index } of text.slice(0, maxSearched).matchAll(pattern)) {
    if (hit !== '') found.push({ from: index, to: index + hit.length })
    if (found.length === maxHits) break
  }
  return found
}

/** Splits the spans where a link or a hit begins or ends. */
export function piecesOf(spans: readonly Span[], links: readonly Stretch[], hits: readonly Stretch[]): Piece[] {
  const bounds = [...links, ...hits].flatMap(({ from, to }) => [from, to]).sort((a, b) => a - b)
  const whole = spans.map(span => span.text).join('')
  const within = (stretches: readonly Stretch[], at: number): Stretch | undefined =>
    stretches.find(({ from, to }) => at >= from && at < to)
  const pieces: Piece[] = []
  let at = 0
  let bound = 0
  for (const { text, style } of spans) {
    const end = at + text.length
    while (at < end) {
      while (bound < bounds.length && (bounds[bound] as number) <= at) bound++
      const to = Math.min(end, bounds[bound] ?? end)
      const led = within(links, at)
      pieces.push({
        text: whole.slice(at, to),
        style,
        href: style.href ?? (led === undefined ? null : whole.slice(led.from, led.to)),
        isHit: within(hits, at) !== undefined
      })
      at = to
    }
  }
  return pieces
}
