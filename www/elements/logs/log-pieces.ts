import { outsideAddress, type Address } from '../../dom/address.js'
import type { Span } from './ansi.js'

/* Finds the links and the search hits in a line. Pure. */

/** A part of a text, by character offsets. */
export interface Stretch {
  from: number
  to: number
}

/** A part of a line with one style. `href`: the address it links to. `isHit`: it matches the search. */
export interface Piece extends Span {
  href: Address | null
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
  const surplus = new Map(Object.entries(closers).map(([last, opener]) => [last, surplusOf(address, last, opener)]))
  for (; end > 0; end--) {
    const last = address[end - 1] as string
    const more = surplus.get(last)
    if (more !== undefined) {
      if (more <= 0) return end
      surplus.set(last, more - 1)
    } else if (!/[.,;:!?*_~]/.test(last)) {
      return end
    }
  }
  return end
}

/** Returns how many more closing brackets than opening ones a text has. */
function surplusOf(text: string, closing: string, opening: string): number {
  return text.split(closing).length - text.split(opening).length
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

/** Returns a function that finds the stretch at an offset. It is called with ascending offsets. */
function finder(stretches: readonly Stretch[]): (at: number) => Stretch | undefined {
  let next = 0
  return at => {
    while (next < stretches.length && (stretches[next] as Stretch).to <= at) next++
    const found = stretches[next]
    return found !== undefined && found.from <= at ? found : undefined
  }
}

/** Splits the spans where a link or a hit begins or ends. */
export function piecesOf(spans: readonly Span[], links: readonly Stretch[], hits: readonly Stretch[]): Piece[] {
  const bounds = [...links, ...hits].flatMap(({ from, to }) => [from, to]).sort((a, b) => a - b)
  const whole = spans.map(span => span.text).join('')
  const [linkAt, hitAt] = [finder(links), finder(hits)]
  const pieces: Piece[] = []
  let at = 0
  let bound = 0
  for (const { text, style } of spans) {
    const end = at + text.length
    while (at < end) {
      while (bound < bounds.length && (bounds[bound] as number) <= at) bound++
      const to = Math.min(end, bounds[bound] ?? end)
      const led = linkAt(at)
      pieces.push({
        text: whole.slice(at, to),
        style,
        href: style.href ?? (led === undefined ? null : outsideAddress(whole.slice(led.from, led.to))),
        isHit: hitAt(at) !== undefined
      })
      at = to
    }
  }
  return pieces
}
