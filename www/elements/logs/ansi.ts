import { outsideAddress, type Address } from '../../dom/address.js'

/*
 * Parses the colours of a line of output: SGR (ECMA-48 §8.3.117) with xterm's 256 colours and true colours, which
 * continue on the next line. Also keeps hyperlinks (OSC 8) to other servers. Removes every other control
 * sequence (CSI, OSC, single escapes, control characters). A carriage return restarts the line, as progress bars
 * expect.
 */

/** An index into the 256 colours, `#rrggbb`, or null for the default. */
export type Color = number | string | null

/** The style of a text. */
export interface TextStyle {
  readonly foreground: Color
  readonly background: Color
  readonly isBold: boolean
  readonly isDim: boolean
  readonly isItalic: boolean
  readonly isUnderlined: boolean
  readonly isInverse: boolean
  readonly isStruck: boolean
  /** Address of the hyperlink, or null. */
  readonly href: Address | null
}

/** A piece of a line in one style. */
export interface Span {
  text: string
  style: TextStyle
}

/** The default style. */
export const plainStyle: TextStyle = {
  foreground: null,
  background: null,
  isBold: false,
  isDim: false,
  isItalic: false,
  isUnderlined: false,
  isInverse: false,
  isStruck: false,
  href: null
}

/** Control sequences, each also in the form that the end of a line cuts off. */
const forms = [
  /\x1b\[([0-9:;<=>?]*)[ -/]*([@-~])/, // CSI, with its parameters and its final byte
  /\x1b\]([^\x07\x1b]*)(?:\x07|\x1b\\|$)/, // OSC, with its text: titles, links
  /\x1b[PX^_][^\x1b]*(?:\x1b\\|$)/, // DCS and similar
  /\x1b[ -/]*[0-OQ-WYZ\\`-~]/, // escapes of two characters
  /\x1b\[[0-9:;<=>?]*[ -/]*/, // an unterminated CSI
  /[\x00-\x08\x0b-\x1f\x7f]/ // control characters except tab and newline
]
const sequence = new RegExp(forms.map(form => form.source).join('|'), 'g')

/** Returns the spans of a line that begins in `style`, and the style in which the next line begins. */
export function parseAnsi(line: string, style: TextStyle): { spans: Span[]; style: TextStyle } {
  const text = afterReturn(line)
  if (!hasControl(text)) return { spans: text === '' ? [] : [{ text, style }], style }
  const spans: Span[] = []
  let current = style
  // A link ends with its line. Otherwise an unclosed link would cover the rest of the log.
  let href: Address | null = null
  let from = 0
  const take = (end: number): void => {
    if (end > from) spans.push({ text: text.slice(from, end), style: href === null ? current : { ...current, href } })
  }
  for (const found of text.matchAll(sequence)) {
    take(found.index)
    from = found.index + found[0].length
    if (found[3]?.startsWith('8;')) href = linkOf(found[3])
    if (found[2] === 'm' && !/[<=>?]/.test(found[1] as string)) current = select(current, found[1] as string)
  }
  take(text.length)
  return { spans, style: current }
}

/** Returns the address of `8;PARAMETERS;ADDRESS`, or null at the end of a link. */
function linkOf(command: string): Address | null {
  return outsideAddress(command.slice(command.indexOf(';', 2) + 1))
}

/** Returns the text without control sequences. */
export function stripAnsi(line: string): string {
  const text = afterReturn(line)
  return hasControl(text) ? text.replace(sequence, '') : text
}

function afterReturn(line: string): string {
  const end = line.endsWith('\r') ? line.length - 1 : line.length
  const at = line.lastIndexOf('\r', end - 1)
  return at === -1 && end === line.length ? line : line.slice(at + 1, end)
}

const control = /[\x00-\x08\x0b-\x1f\x7f]/
const hasControl = (text: string): boolean => control.test(text)

/** Applies one SGR sequence: parameters separated by `;`, sub-parameters by `:`. */
function select(style: TextStyle, parameters: string): TextStyle {
  let next = style
  const codes = parameters.split(';')
  for (let index = 0; index < codes.length; index++) {
    const [code, ...sub] = (codes[index] as string).split(':').map(Number) as [number, ...number[]]
    if (code === 38 || code === 48) {
      // `38:2::r:g:b` contains its components; `38;2;r;g;b` uses the following parameters.
      const given = sub.length > 0 ? sub : codes.slice(index + 1, index + 5).map(Number)
      const { color, used } = extended(given, sub.length > 0)
      if (sub.length === 0) index += used
      if (color !== undefined) next = { ...next, [code === 38 ? 'foreground' : 'background']: color }
      continue
    }
    next = single(next, code, sub)
  }
  return next
}

function single(style: TextStyle, code: number, sub: number[]): TextStyle {
  switch (code) {
    case 0:
      return plainStyle
    case 1:
      return { ...style, isBold: true }
    case 2:
      return { ...style, isDim: true }
    case 3:
      return { ...style, isItalic: true }
    case 4:
      return { ...style, isUnderlined: sub[0] !== 0 }
    case 7:
      return { ...style, isInverse: true }
    case 9:
      return { ...style, isStruck: true }
    case 21:
      return { ...style, isUnderlined: true }
    case 22:
      return { ...style, isBold: false, isDim: false }
    case 23:
      return { ...style, isItalic: false }
    case 24:
      return { ...style, isUnderlined: false }
    case 27:
      return { ...style, isInverse: false }
    case 29:
      return { ...style, isStruck: false }
    case 39:
      return { ...style, foreground: null }
    case 49:
      return { ...style, background: null }
  }
  if (code >= 30 && code <= 37) return { ...style, foreground: code - 30 }
  if (code >= 90 && code <= 97) return { ...style, foreground: code - 90 + 8 }
  if (code >= 40 && code <= 47) return { ...style, background: code - 40 }
  if (code >= 100 && code <= 107) return { ...style, background: code - 100 + 8 }
  return style
}

function extended(given: number[], isColon: boolean): { color?: Color; used: number } {
  if (given[0] === 5) return isByte(given[1]) ? { color: paletteColor(given[1]), used: 2 } : { used: 2 }
  if (given[0] !== 2) return { used: given.length === 0 ? 0 : 1 }
  const rgb = isColon && given.length > 4 ? given.slice(2, 5) : given.slice(1, 4)
  return rgb.length === 3 && rgb.every(isByte) ? { color: hex(rgb), used: 4 } : { used: 4 }
}

const isByte = (value: number | undefined): value is number =>
  value !== undefined && Number.isInteger(value) && value >= 0 && value <= 255

const hex = (rgb: number[]): string => `#${rgb.map(value => value.toString(16).padStart(2, '0')).join('')}`

/**
 * The first 16 colours come from the theme; then follow a colour cube with six steps per channel, and 24 greys (xterm's
 * 256 colours).
 */
function paletteColor(index: number): Color {
  if (index < 16) return index
  if (index >= 232) return hex([8, 8, 8].map(value => value + (index - 232) * 10))
  const step = (value: number): number => (value === 0 ? 0 : 55 + value * 40)
  const cube = index - 16
  return hex([step(Math.floor(cube / 36)), step(Math.floor(cube / 6) % 6), step(cube % 6)])
}
