import {
  blinking,
  bold,
  colorMask,
  dim,
  hidden,
  inverse,
  italic,
  rgbBit,
  struck,
  underlineMask,
  underlineShift
} from './cells.js'
import type { Parameters } from './parser.js'

/** The attributes of the next character: the foreground and background words of a cell (cells.ts). */
export interface Pen {
  foreground: number
  background: number
}

/**
 * SGR: sets the attributes of the pen (ECMA-48 §8.3.117; ISO 8613-6 for colours). Colours are written as `38;2;r;g;b`
 * or `38;5;n`, or with colons. The form with colons has a colour space (`38:2::r:g:b`), which many programs omit. The
 * colour of an underline is ignored.
 */
export function selectRendition(pen: Pen, { values, isSub, count }: Parameters): void {
  for (let at = 0; at < count; at++) {
    const value = values[at] as number
    let subs = 0
    while (at + subs + 1 < count && isSub[at + subs + 1] === 1) subs++
    if (value === 38 || value === 48 || value === 58) {
      at += extended(pen, values, { at, count, subs })
      continue
    }
    if (subs === 0) select(pen, value)
    else if (value === 4) underline(pen, values[at + 1] as number)
    at += subs
  }
}

function select(pen: Pen, value: number): void {
  switch (value) {
    case 0:
      pen.foreground = 0
      pen.background = 0
      return
    case 1:
      pen.foreground |= bold
      return
    case 2:
      pen.foreground |= dim
      return
    case 3:
      pen.foreground |= italic
      return
    case 4:
      return underline(pen, 1)
    case 5:
    case 6:
      pen.background |= blinking
      return
    case 7:
      pen.foreground |= inverse
      return
    case 8:
      pen.background |= hidden
      return
    case 9:
      pen.foreground |= struck
      return
    case 21:
      return underline(pen, 2)
    case 22:
      pen.foreground &= ~(bold | dim)
      return
    case 23:
      pen.foreground &= ~italic
      return
    case 24:
      return underline(pen, 0)
    case 25:
      pen.background &= ~blinking
      return
    case 27:
      pen.foreground &= ~inverse
      return
    case 28:
      pen.background &= ~hidden
      return
    case 29:
      pen.foreground &= ~struck
      return
    case 39:
      return setForeground(pen, 0)
    case 49:
      return setBackground(pen, 0)
  }
  if (value >= 30 && value <= 37) setForeground(pen, value - 30 + 1)
  else if (value >= 40 && value <= 47) setBackground(pen, value - 40 + 1)
  else if (value >= 90 && value <= 97) setForeground(pen, value - 90 + 9)
  else if (value >= 100 && value <= 107) setBackground(pen, value - 100 + 9)
}

function underline(pen: Pen, style: number): void {
  pen.background = (pen.background & ~underlineMask) | (Math.min(style, 5) << underlineShift)
}

function setForeground(pen: Pen, color: number): void {
  pen.foreground = (pen.foreground & ~colorMask) | color
}

function setBackground(pen: Pen, color: number): void {
  pen.background = (pen.background & ~colorMask) | color
}

/** Sets a colour that takes further parameters after `at`. Returns the number of those parameters. */
function extended(
  pen: Pen,
  values: Int32Array,
  { at, count, subs }: { at: number; count: number; subs: number }
): number {
  const kind = values[at + 1]
  // With colons, the colour is all sub-parameters. With semicolons, it is the next four parameters, or two.
  const taken = subs > 0 ? subs : Math.min(count - at - 1, kind === 2 ? 4 : kind === 5 ? 2 : 1)
  const last = at + taken
  let color = -1
  if (kind === 5 && taken >= 2) {
    const index = values[at + 2] as number
    if (index <= 255) color = index + 1
  } else if (kind === 2 && taken >= 4) {
    const first = subs > 4 ? at + 3 : at + 2
    const [red, green, blue] = [values[first], values[first + 1], values[first + 2]] as [number, number, number]
    if (first + 2 <= last && red <= 255 && green <= 255 && blue <= 255)
      color = rgbBit | (red << 16) | (green << 8) | blue
  }
  if (color >= 0 && values[at] === 38) setForeground(pen, color)
  if (color >= 0 && values[at] === 48) setBackground(pen, color)
  return taken
}

/** Returns the SGR parameters that produce the pen, for a report. */
export function renditionOf({ foreground, background }: Pen): string {
  const codes = ['0']
  const flags: Array<[isOn: boolean, code: string]> = [
    [(foreground & bold) !== 0, '1'],
    [(foreground & dim) !== 0, '2'],
    [(foreground & italic) !== 0, '3'],
    [(background & blinking) !== 0, '5'],
    [(foreground & inverse) !== 0, '7'],
    [(background & hidden) !== 0, '8'],
    [(foreground & struck) !== 0, '9']
  ]
  for (const [isOn, code] of flags) if (isOn) codes.push(code)
  const line = (background & underlineMask) >> underlineShift
  if (line > 0) codes.push(line === 1 ? '4' : `4:${line}`)
  for (const [color, base] of [
    [foreground & colorMask, 30],
    [background & colorMask, 40]
  ] as const) {
    if (color === 0) continue
    if ((color & rgbBit) !== 0) codes.push(`${base + 8}:2::${(color >> 16) & 255}:${(color >> 8) & 255}:${color & 255}`)
    else if (color <= 8) codes.push(String(base + color - 1))
    else if (color <= 16) codes.push(String(base + 60 + color - 9))
    else codes.push(`${base + 8}:5:${color - 1}`)
  }
  return codes.join(';')
}
