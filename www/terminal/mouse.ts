import type { Modes } from './modes.js'

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
