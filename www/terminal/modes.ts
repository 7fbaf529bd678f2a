/** The modes of a terminal. The renderer and the keyboard, mouse and paste encoders read them. */
export interface Modes {
  applicationCursor: boolean
  applicationKeypad: boolean
  reverseScreen: boolean
  origin: boolean
  autowrap: boolean
  insert: boolean
  newline: boolean
  cursorVisible: boolean
  cursorBlinks: boolean
  /** Reported mouse events: 0 none, 9 presses, 1000 also releases, 1002 also drags, 1003 also moves. */
  mouse: 0 | 9 | 1000 | 1002 | 1003
  mouseSgr: boolean
  focusReports: boolean
  /** Whether the wheel sends arrow keys on the alternate screen. */
  alternateScroll: boolean
  bracketedPaste: boolean
  /** Whether the program is in the middle of an update, so drawing now would show half a picture. */
  synchronized: boolean
}

/** Returns the modes of a terminal after a reset. */
export function defaultModes(): Modes {
  return {
    applicationCursor: false,
    applicationKeypad: false,
    reverseScreen: false,
    origin: false,
    autowrap: true,
    insert: false,
    newline: false,
    cursorVisible: true,
    cursorBlinks: false,
    mouse: 0,
    mouseSgr: false,
    focusReports: false,
    alternateScroll: true,
    bracketedPaste: false,
    synchronized: false
  }
}

/** Name of a mode that is on or off. */
type Switch = { [K in keyof Modes]: Modes[K] extends boolean ? K : never }[keyof Modes]

/**
 * DEC private modes by number. functions.ts handles the rest: the mouse modes (9 and 1000 to 1003), which share a
 * field, and the modes that switch screens or save the cursor.
 */
export const privateSwitches: Readonly<Record<number, Switch>> = {
  1: 'applicationCursor',
  5: 'reverseScreen',
  6: 'origin',
  7: 'autowrap',
  12: 'cursorBlinks',
  25: 'cursorVisible',
  66: 'applicationKeypad',
  1004: 'focusReports',
  1006: 'mouseSgr',
  1007: 'alternateScroll',
  2004: 'bracketedPaste',
  2026: 'synchronized'
}

/** ANSI modes by number. */
export const ansiSwitches: Readonly<Record<number, Switch>> = { 4: 'insert', 20: 'newline' }

/** Returns whether a DEC private mode is one of the mouse modes. */
export const isMouseMode = (mode: number): mode is 9 | 1000 | 1002 | 1003 =>
  mode === 9 || mode === 1000 || mode === 1002 || mode === 1003
