/* Encodes keys like xterm (XTerm Control Sequences, "PC-style function keys"). */
import type { Modes } from './screen.js'

/** The used part of a KeyboardEvent, as plain values. */
export interface KeyPress {
  /** The value of KeyboardEvent.key: `a`, `Enter`, `ArrowUp`. */
  key: string
  isShift?: boolean
  isAlt?: boolean
  isControl?: boolean
  /** Whether Command or Windows is held. Such keys belong to the system. */
  isMeta?: boolean
  /** Whether AltGr is held. Many systems also report it as Control and Alt. */
  isAltGraph?: boolean
  isKeypad?: boolean
  isNumLocked?: boolean
}

type KeyModes = Pick<Modes, 'applicationCursor' | 'applicationKeypad' | 'newline'>

const escape = '\x1b'
const csi = '\x1b['
const ss3 = '\x1bO'

/** Keys that are sent as CSI or SS3 and a letter. Modifiers precede the letter. */
const letters: Readonly<Record<string, string>> = {
  ArrowUp: 'A',
  ArrowDown: 'B',
  ArrowRight: 'C',
  ArrowLeft: 'D',
  Home: 'H',
  End: 'F'
}
const functionLetters: Readonly<Record<string, string>> = { F1: 'P', F2: 'Q', F3: 'R', F4: 'S' }

/** Keys that are sent as CSI, a number and `~`. */
const numbers: Readonly<Record<string, number>> = {
  Insert: 2,
  Delete: 3,
  PageUp: 5,
  PageDown: 6,
  F5: 15,
  F6: 17,
  F7: 18,
  F8: 19,
  F9: 20,
  F10: 21,
  F11: 23,
  F12: 24
}

/** Control characters of keys that are not letters. */
const controls: Readonly<Record<string, string>> = {
  ' ': '\x00',
  '@': '\x00',
  '2': '\x00',
  '[': '\x1b',
  '3': '\x1b',
  '\\': '\x1c',
  '4': '\x1c',
  ']': '\x1d',
  '5': '\x1d',
  '^': '\x1e',
  '6': '\x1e',
  _: '\x1f',
  '/': '\x1f',
  '-': '\x1f',
  '7': '\x1f',
  '?': '\x7f',
  '8': '\x7f'
}

/** Letters of the keypad in application mode without Num Lock (VT100). */
const keypad: Readonly<Record<string, string>> = {
  Enter: 'M',
  '*': 'j',
  '+': 'k',
  ',': 'l',
  '-': 'm',
  '.': 'n',
  '/': 'o',
  '=': 'X'
}

/** Returns the bytes to send for a key, or null to leave the key to the browser. */
export function bytesOfKey(press: KeyPress, modes: KeyModes): string | null {
  const { key, isMeta = false } = press
  if (isMeta) return null
  if (press.isKeypad === true && modes.applicationKeypad && press.isNumLocked !== true) {
    const letter = keypad[key]
    if (letter !== undefined) return ss3 + letter
  }
  return namedKey(press, modes) ?? characterKey(press)
}

/** Returns the modifier parameter: 1 plus Shift 1, Alt 2, Control 4. */
const modifierOf = ({ isShift = false, isAlt = false, isControl = false }: KeyPress): number =>
  1 + (isShift ? 1 : 0) + (isAlt ? 2 : 0) + (isControl ? 4 : 0)

function namedKey(press: KeyPress, modes: KeyModes): string | null {
  const { key, isShift = false, isAlt = false, isControl = false } = press
  const modifier = modifierOf(press)
  const letter = letters[key]
  if (letter !== undefined) {
    if (modifier > 1) return `${csi}1;${modifier}${letter}`
    return (modes.applicationCursor ? ss3 : csi) + letter
  }
  const functionLetter = functionLetters[key]
  if (functionLetter !== undefined) return modifier > 1 ? `${csi}1;${modifier}${functionLetter}` : ss3 + functionLetter
  const number = numbers[key]
  if (number !== undefined) return modifier > 1 ? `${csi}${number};${modifier}~` : `${csi}${number}~`
  const meta = isAlt ? escape : ''
  switch (key) {
    case 'Enter':
      return meta + (modes.newline ? '\r\n' : '\r')
    case 'Tab':
      return isShift ? `${csi}Z` : `${meta}\t`
    case 'Backspace':
      return meta + (isControl ? '\b' : '\x7f')
    case 'Escape':
      return meta + escape
  }
  return null
}

function characterKey({ key, isAlt = false, isControl = false, isAltGraph = false }: KeyPress): string | null {
  if ([...key].length !== 1) return null
  // AltGr types the character of the key, even if the event also reports Control and Alt.
  if (isAltGraph) return key
  const meta = isAlt ? escape : ''
  if (!isControl) return meta + key
  const control = controls[key] ?? controlOf(key)
  return control === null ? null : meta + control
}

function controlOf(key: string): string | null {
  const code = key.toLowerCase().charCodeAt(0)
  return code >= 0x61 && code <= 0x7a ? String.fromCharCode(code & 0x1f) : null
}

/** A mouse event. `x` and `y` are the cell, counted from 0. */
export interface MouseReport {
  kind: 'press' | 'release' | 'move' | 'wheel'
  /** Button: 0 left, 1 middle, 2 right, null for none. For a wheel: 0 up, 1 down. */
  button: number | null
  x: number
  y: number
  isShift?: boolean
  isAlt?: boolean
  isControl?: boolean
}

const moving = 32
const wheel = 64
const noButton = 3
/** Maximum coordinate of the old encoding. It uses one byte, which UTF-8 keeps as one byte only up to 127. */
const maxOldPlace = 127 - 33

/**
 * Returns the bytes to send for a mouse event, or null if the program's mouse mode does not report it (XTerm Control
 * Sequences, "Mouse Tracking"). Without the SGR encoding, positions beyond column or row 94 are not reported.
 */
export function bytesOfMouse(report: MouseReport, modes: Pick<Modes, 'mouse' | 'mouseSgr'>): string | null {
  const { kind, x, y } = report
  if (!isWanted(report, modes.mouse)) return null
  const held = modes.mouse === 9 ? 0 : (report.isShift ? 4 : 0) + (report.isAlt ? 8 : 0) + (report.isControl ? 16 : 0)
  const extra = kind === 'wheel' ? wheel : kind === 'move' ? moving : 0
  const button = (report.button ?? noButton) + extra + held
  if (modes.mouseSgr) return `\x1b[<${button};${x + 1};${y + 1}${kind === 'release' ? 'm' : 'M'}`
  if (x > maxOldPlace || y > maxOldPlace) return null
  const oldButton = kind === 'release' ? noButton + held : button
  return `\x1b[M${String.fromCharCode(32 + oldButton, 33 + x, 33 + y)}`
}

function isWanted({ kind, button }: MouseReport, mode: Modes['mouse']): boolean {
  switch (mode) {
    case 0:
      return false
    case 9:
      return kind === 'press'
    case 1000:
      return kind !== 'move'
    case 1002:
      return kind !== 'move' || button !== null
    case 1003:
      return true
  }
}

const controlCharacters = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/g

/**
 * Returns a pasted text in the form that is safe to send. Line ends become the code of Enter. All other control
 * characters except tabs are removed: they could end a bracketed paste or act as keys.
 */
export function bytesOfPaste(text: string, { bracketedPaste }: { bracketedPaste: boolean }): string {
  const clean = text
    .replace(/\r\n|\n|\r/g, '\n')
    .replace(controlCharacters, '')
    .replaceAll('\n', '\r')
  return bracketedPaste ? `\x1b[200~${clean}\x1b[201~` : clean
}
