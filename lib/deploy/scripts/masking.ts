/*
 * Masks secrets in outputs and sentences: each occurrence is replaced by `***`.
 *
 * A secret with several lines is masked line by line. Lines shorter than four characters are not masked, because every
 * output would be full of stars. The API refuses a secret without a longer line.
 *
 * Line breaks can cut a secret in an output (`fold`, `base64`). The search continues across lines, and the secret's
 * part of each line is replaced. A line whose end may be the beginning of a secret is held back until later lines
 * decide, for a second at most. The search is the algorithm of Knuth, Morris and Pratt with one state per secret. Each
 * character is read once, and the lines held back are never longer than the longest secret plus the line in which it
 * began.
 */
import { minSecretLength } from '../../model/variable.js'

/** The replacement of a secret. */
export const mask = '***'
/** How long a line is held back if no other line follows. */
const holdMs = 1000

/** A secret, or one line of it, with the longest border of each of its prefixes. */
interface Needle {
  text: string
  borders: Int32Array
}

/** Masks the secrets of one deployment. */
export interface Masker {
  /** Returns a sentence without secrets. */
  text(text: string): string
  /** Starts masking the lines of an output. `emit` receives them in order, without secrets. */
  lines(emit: Emit): MaskedLines
}

/** Receives a line. If it returns a promise, the next line should wait for it. */
export type Emit = (line: string) => void | Promise<void>

/** Lines of an output that are being masked. */
export interface MaskedLines {
  push(line: string): void | Promise<void>
  /** Emits the lines held back, at the end of the output. */
  end(): void | Promise<void>
}

/** Creates a masker of these values. */
export function createMasker(secrets: readonly string[]): Masker {
  const parts = secrets
    .flatMap(secret => secret.split(/\r\n|\r|\n/))
    .map(part => part.trim())
    .filter(part => part.length >= minSecretLength)
  const needles = [...new Set(parts)].map(text => ({ text, borders: bordersOf(text) }))
  return {
    text(text) {
      let masked = ''
      const lines = maskLines(needles, line => void (masked = line))
      lines.push(text)
      lines.end()
      return masked
    },
    lines: emit => (needles.length === 0 ? { push: emit, end: () => {} } : maskLines(needles, emit))
  }
}

/** A line held back. Offsets count all characters since the start of the output. */
interface HeldLine {
  text: string
  start: number
  found: Span[]
}

type Span = [from: number, to: number]

function maskLines(needles: readonly Needle[], emit: Emit): MaskedLines {
  const states = new Int32Array(needles.length)
  const held: HeldLine[] = []
  let end = 0
  let timer: NodeJS.Timeout | undefined

  /** Searches one line for all secrets, including those that began in an earlier line. */
  function search(line: HeldLine): void {
    needles.forEach((needle, index) => {
      const onEnd = (at: number): void => mark(line.start + at - needle.text.length, line.start + at)
      states[index] = scan({ text: line.text, needle, onEnd }, states[index] as number)
    })
  }

  function mark(from: number, to: number): void {
    for (let index = held.length - 1; index >= 0; index--) {
      const line = held[index] as HeldLine
      if (line.start + line.text.length <= from) break
      line.found.push([Math.max(from, line.start) - line.start, Math.min(to - line.start, line.text.length)])
    }
  }

  /** Emits the lines that end at or before `offset`. */
  function release(offset: number): void | Promise<void> {
    let wait: void | Promise<void> = undefined
    const first = held.findIndex(({ start, text }) => start + text.length > offset)
    for (const line of held.splice(0, first === -1 ? held.length : first)) wait = emit(withMasks(line)) ?? wait
    return wait
  }

  function releaseLater(): void {
    timer = setTimeout(() => {
      // An error while emitting stops the script at its next line.
      try {
        Promise.resolve(release(end)).catch(() => {})
      } catch {}
    }, holdMs)
    timer.unref()
  }

  return {
    push(text) {
      clearTimeout(timer)
      // No program that folds lines prints an empty line within a value.
      if (text === '') states.fill(0)
      const line = { text, start: end, found: [] }
      held.push(line)
      end += text.length
      search(line)
      const wait = release(end - states.reduce((longest, state) => Math.max(longest, state), 0))
      if (held.length > 0) releaseLater()
      return wait
    },
    end() {
      clearTimeout(timer)
      return release(end)
    }
  }
}

/** The search for one secret in one text. */
interface Search {
  text: string
  needle: Needle
  /** Called with the position after each occurrence. */
  onEnd(at: number): void
}

/**
 * Searches a text for one secret, starting in `state`. Returns how many of its characters the end of the text matches.
 * Nearly every line starts in state 0. Then the faster `indexOf` finds whole secrets, and only the end of the text is
 * searched character by character.
 */
function scan(search: Search, state: number): number {
  if (state > 0) return walk(search, 0, state)
  const { text, needle, onEnd } = search
  const { length } = needle.text
  for (let at = text.indexOf(needle.text); at !== -1; at = text.indexOf(needle.text, at + 1)) onEnd(at + length)
  return walk(search, Math.max(0, text.length - length + 1), 0)
}

function walk({ text, needle: { text: wanted, borders }, onEnd }: Search, from: number, begun: number): number {
  let state = begun
  for (let at = from; at < text.length; at++) {
    if (state === 0) {
      at = text.indexOf(wanted[0] as string, at)
      if (at === -1) return 0
    }
    while (state > 0 && wanted[state] !== text[at]) state = borders[state - 1] as number
    if (wanted[state] === text[at]) state++
    if (state < wanted.length) continue
    onEnd(at + 1)
    state = borders[state - 1] as number
  }
  return state
}

/** Returns for each prefix the length of its longest border: a text that both begins and ends it. */
function bordersOf(text: string): Int32Array {
  const borders = new Int32Array(text.length)
  for (let at = 1, border = 0; at < text.length; at++) {
    while (border > 0 && text[at] !== text[border]) border = borders[border - 1] as number
    if (text[at] === text[border]) border++
    borders[at] = border
  }
  return borders
}

function withMasks({ text, found }: HeldLine): string {
  let masked = ''
  let at = 0
  for (const [from, to] of found.sort(([a], [b]) => a - b)) {
    if (from >= at) masked += text.slice(at, from) + mask
    at = Math.max(at, to)
  }
  return masked + text.slice(at)
}
