/** The switches of a terminal, as they stand. Public ones matter to who draws the screen or sends keys. */
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
  /** Which mouse events are reported: none, presses (9), and releases (1000), and drags (1002), and moves (1003). */
  mouse: 0 | 9 | 1000 | 1002 | 1003
  mouseSgr: boolean
  focusReports: boolean
  /** On the alternate screen the wheel sends arrow keys. */
  alternateScroll: boolean
  bracketedPaste: boolean
  /** The program is in the middle of an update: what is drawn now would be half a picture. */
  synchronized: boolean
}

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

/** Names of the modes that are on or off and do nothing more when they are switched. */
type Switch = { [K in keyof Modes]: Modes[K] extends boolean ? K : never }[keyof Modes]

/** DEC private modes by number. 9 and 100x, which share a field, the screens and the cursor's saving stand elsewhere. */
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

export const isMouseMode = (mode: number): mode is 9 | 1000 | 1002 | 1003 =>
  mode === 9 || mode === 1000 || mode === 1002 || mode === 1003
