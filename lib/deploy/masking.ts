/*
 * Keeps secrets out of outputs and sentences: each is replaced by `***`.
 *
 * A secret of several lines is masked line by line. A part of fewer than four characters is not masked, or every output
 * would be full of stars; the API refuses a secret that has no longer part.
 *
 * In an output a secret may be cut by line breaks (`fold`, `base64`): it is found across lines, and its share of each line
 * is replaced. Lines whose end may be the beginning of a secret are held back until the next lines decide, for a second
 * at most. The search is that of Knuth, Morris and Pratt with one state per secret, so each character is seen once, and
 * what is held back is never longer than the longest secret and the line in which it began.
 */
import { minSecretLength } from '../model/variable.js'

export const mask = '***'
/** How long a line is held back when no other follows. */
const holdMs = 1000

/** A secret, or a line of one, with the longest border of each of its beginnings. */
interface Needle {
  text: string
  borders: Int32Array
}

export interface Masker {
  /** One sentence without secrets. */
  text(text: string): string
  /** Lines of an output, in order. `emit` gets them without secrets. */
  lines(emit: Emit): MaskedLines
}

/** A promise: the next line should wait. */
export type Emit = (line: string) => void | Promise<void>

export interface MaskedLines {
  push(line: string): void | Promise<void>
  /** Hands out what is held back: nothing follows. */
  end(): void | Promise<void>
}

/** Masks these values. */
export function createMasker(secrets: readonly string[]): Masker {
  const parts = secrets.flatMap(secret => secret.split(/\r\n|\r|\n/)).map(part => part.trim()).filter(part => part.length >= minSecretLength)
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

/** A line that waits. Offsets count all characters that were pushed. */
interface HeldLine {
  text: string
  start: number
  found: Span[]
}

type Span = [from: number, to: number]

function maskLines(needles: readonly Needle[], emit: Emit): MaskedLines {
  const states = new Int32Array(needles.length)
  let held: HeldLine[] = []
  let end = 0
  let timer: NodeJS.Timeout | undefined

  /** Looks for all secrets in one line, which may end one that an earlier line began. */
  function search(line: HeldLine): void {
    needles.forEach((needle, index) => {
      states[index] = scan(line.text, needle, states[index] as number, at => mark(line.start + at - needle.text.length, line.start + at))
    })
  }

  function mark(from: number, to: number): void {
    for (let index = held.length - 1; index >= 0; index--) {
      const line = held[index] as HeldLine
      if (line.start + line.text.length <= from) break
      line.found.push([Math.max(from, line.start) - line.start, Math.min(to - line.start, line.text.length)])
    }
  }

  /** Emits the lines that end before `offset`. */
  function release(offset: number): void | Promise<void> {
    let wait: void | Promise<void> = undefined
    const first = held.findIndex(({ start, text }) => start + text.length > offset)
    for (const line of held.splice(0, first === -1 ? held.length : first)) wait = emit(withMasks(line)) ?? wait
    return wait
  }

  function releaseLater(): void {
    timer = setTimeout(() => {
      // What cannot be kept stops the script at its next line.
      try {
        Promise.resolve(release(end)).catch(() => {})
      } catch {}
    }, holdMs)
    timer.unref()
  }

  return {
    push(text) {
      clearTimeout(timer)
      // No program that folds its lines prints an empty one between.
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

/**
 * Moves one secret's state over a text, and reports where it ends. Returns how much of it the end of the text may begin.
 * Nearly every line begins with an empty state: then the runtime's own search finds whole secrets, and only the end of
 * the text is looked at letter by letter.
 */
function scan(text: string, needle: Needle, from: number, onEnd: (at: number) => void): number {
  if (from > 0) return walk(text, needle, { at: 0, state: from }, onEnd)
  const { length } = needle.text
  for (let at = text.indexOf(needle.text); at !== -1; at = text.indexOf(needle.text, at + 1)) onEnd(at + length)
  return walk(text, needle, { at: Math.max(0, text.length - length + 1), state: 0 }, onEnd)
}

function walk(text: string, { text: wanted, borders }: Needle, from: { at: number; state: number }, onEnd: (at: number) => void): number {
  let { state } = from
  for (let { at } = from; at < text.length; at++) {
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

/** Of each beginning: the length of the longest text that both begins and ends it. */
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
