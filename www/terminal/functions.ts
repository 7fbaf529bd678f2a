import {
  deleteCharacters,
  deleteLines,
  eraseCharacters,
  eraseInDisplay,
  eraseInLine,
  fillWithE,
  insertCharacters,
  insertLines
} from './edit.js'
import { ansiSwitches, defaultModes, isMouseMode, privateSwitches } from './modes.js'
import { functionId, type Parameters } from './parser.js'
import { printCode } from './print.js'
import {
  index,
  moveTo,
  moveToAddress,
  moveVertically,
  restoreCursor,
  reverseIndex,
  saveCursor,
  scrollDown,
  scrollUp,
  showAlternate,
  showMain,
  tab,
  tabStops,
  type Screen
} from './screen.js'
import { selectRendition } from './sgr.js'

/*
 * The tables of control functions that change the screen. The functions that reply to the program are in reports.ts.
 *
 * Standards: ECMA-48 and DEC STD 070. For functions that they do not specify: XTerm Control Sequences
 * (invisible-island.net/xterm/ctlseqs).
 */

type Work = (screen: Screen, parameters: Parameters) => void

/** Returns a parameter as a count. An omitted parameter and 0 mean 1. */
const count = ({ values, count }: Parameters, at = 0): number => (at < count ? Math.max(1, values[at] as number) : 1)
/** Returns a parameter. An omitted parameter means 0. */
const value = ({ values, count }: Parameters, at = 0): number => (at < count ? (values[at] as number) : 0)

const rows: Array<[name: string, bytes: string, work: Work]> = [
  ['ICH', '@', (screen, given) => insertCharacters(screen, count(given))],
  ['CUU', 'A', (screen, given) => moveVertically(screen, -count(given))],
  ['CUD', 'B', (screen, given) => moveVertically(screen, count(given))],
  ['CUF', 'C', (screen, given) => moveTo(screen, screen.x + count(given), screen.y)],
  ['CUB', 'D', (screen, given) => moveTo(screen, screen.x - count(given), screen.y)],
  ['CNL', 'E', (screen, given) => moveByLines(screen, count(given))],
  ['CPL', 'F', (screen, given) => moveByLines(screen, -count(given))],
  ['CHA', 'G', (screen, given) => moveTo(screen, count(given) - 1, screen.y)],
  ['CUP', 'H', (screen, given) => moveToAddress(screen, count(given, 1) - 1, count(given) - 1)],
  ['CHT', 'I', (screen, given) => tab(screen, count(given))],
  ['ED', 'J', (screen, given) => eraseInDisplay(screen, value(given))],
  ['DECSED', '?J', (screen, given) => eraseInDisplay(screen, value(given))],
  ['EL', 'K', (screen, given) => eraseInLine(screen, value(given))],
  ['DECSEL', '?K', (screen, given) => eraseInLine(screen, value(given))],
  ['IL', 'L', (screen, given) => insertLines(screen, count(given))],
  ['DL', 'M', (screen, given) => deleteLines(screen, count(given))],
  ['DCH', 'P', (screen, given) => deleteCharacters(screen, count(given))],
  ['SU', 'S', (screen, given) => scrollUp(screen, count(given))],
  // With five parameters it is a request for mouse highlighting in xterm.
  ['SD', 'T', (screen, given) => given.count === 1 && scrollDown(screen, screen.top, count(given))],
  ['SD', '^', (screen, given) => scrollDown(screen, screen.top, count(given))],
  ['ECH', 'X', (screen, given) => eraseCharacters(screen, count(given))],
  ['CBT', 'Z', (screen, given) => tab(screen, -count(given))],
  ['HPA', '`', (screen, given) => moveTo(screen, count(given) - 1, screen.y)],
  ['HPR', 'a', (screen, given) => moveTo(screen, screen.x + count(given), screen.y)],
  ['REP', 'b', (screen, given) => repeat(screen, count(given))],
  ['VPA', 'd', (screen, given) => moveToAddress(screen, screen.x, count(given) - 1)],
  ['VPR', 'e', (screen, given) => moveTo(screen, screen.x, screen.y + count(given))],
  ['HVP', 'f', (screen, given) => moveToAddress(screen, count(given, 1) - 1, count(given) - 1)],
  ['TBC', 'g', (screen, given) => clearTabs(screen, value(given))],
  ['SM', 'h', (screen, given) => setAnsiModes(screen, given, true)],
  ['RM', 'l', (screen, given) => setAnsiModes(screen, given, false)],
  ['DECSET', '?h', (screen, given) => setPrivateModes(screen, given, true)],
  ['DECRST', '?l', (screen, given) => setPrivateModes(screen, given, false)],
  ['SGR', 'm', (screen, given) => selectRendition(screen.pen, given)],
  ['DECSTR', '!p', screen => softReset(screen)],
  ['DECSTBM', 'r', (screen, given) => setRegion(screen, count(given) - 1, (value(given, 1) || screen.rows) - 1)],
  ['SCOSC', 's', screen => saveCursor(screen)],
  ['SCORC', 'u', screen => restoreCursor(screen)]
]

const escapes: Array<[name: string, bytes: string, work: (screen: Screen) => void]> = [
  ['DECSC', '7', saveCursor],
  ['DECRC', '8', restoreCursor],
  [
    'DECALN',
    '#8',
    screen => {
      fillWithE(screen)
      setRegion(screen, 0, screen.rows - 1)
    }
  ],
  ['DECKPAM', '=', screen => (screen.modes.applicationKeypad = true)],
  ['DECKPNM', '>', screen => (screen.modes.applicationKeypad = false)],
  ['IND', 'D', index],
  [
    'NEL',
    'E',
    screen => {
      index(screen)
      screen.x = 0
    }
  ],
  ['HTS', 'H', screen => (screen.tabs[screen.x] = 1)],
  ['RI', 'M', reverseIndex],
  // Designations of character sets: 0 is line drawing, every other set is treated as ASCII.
  ...['0', 'A', 'B', '1', '2', '4', '5', '7', 'C', 'E', 'H', 'K', 'Q', 'R', 'Y', 'Z', '=', '<', '>', '6'].flatMap(
    (set): typeof escapes => [
      ['SCS G0', `(${set}`, screen => (screen.charsets[0] = set === '0')],
      ['SCS G1', `)${set}`, screen => (screen.charsets[1] = set === '0')]
    ]
  )
]

/** Actions of control sequences, by function. */
export const csiFunctions: ReadonlyMap<number, Work> = new Map(rows.map(([, bytes, work]) => [functionId(bytes), work]))
/** Actions of escape sequences, by function. */
export const escapeFunctions: ReadonlyMap<number, (screen: Screen) => void> = new Map(
  escapes.map(([, bytes, work]) => [functionId(bytes), work])
)

/** Handles a C0 control character. The emulator handles BEL. */
export function controlCharacter(screen: Screen, code: number): void {
  switch (code) {
    case 0x08:
      return moveTo(screen, screen.x - 1, screen.y)
    case 0x09:
      return tabForward(screen)
    case 0x0a:
    case 0x0b:
    case 0x0c:
      index(screen)
      if (screen.modes.newline) screen.x = 0
      return
    case 0x0d:
      screen.x = 0
      screen.isWrapPending = false
      return
    case 0x0e:
      screen.shift = 1
      return
    case 0x0f:
      screen.shift = 0
      return
  }
}

/** HT: moves to the next tab stop, except while a wrap is pending, as in xterm. */
function tabForward(screen: Screen): void {
  if (!screen.isWrapPending) tab(screen, 1)
}

function moveByLines(screen: Screen, lines: number): void {
  moveVertically(screen, lines)
  screen.x = 0
}

function repeat(screen: Screen, times: number): void {
  if (screen.lastCode === 0) return
  // More characters than the screen has cells would only scroll it further.
  const most = screen.columns * screen.rows
  for (let left = Math.min(times, most); left > 0; left--) printCode(screen, screen.lastCode)
}

function clearTabs(screen: Screen, what: number): void {
  if (what === 0) screen.tabs[screen.x] = 0
  else if (what === 3) screen.tabs.fill(0)
}

/** DECSTBM: sets the region, both rows inclusive, and moves the cursor home. Ignores a region of one line. */
function setRegion(screen: Screen, top: number, bottom: number): void {
  const last = Math.min(bottom, screen.rows - 1)
  if (top >= last) return
  screen.top = top
  screen.bottom = last
  moveToAddress(screen, 0, 0)
}

function setAnsiModes(screen: Screen, { values, count }: Parameters, isOn: boolean): void {
  for (let at = 0; at < count; at++) {
    const name = ansiSwitches[values[at] as number]
    if (name !== undefined) screen.modes[name] = isOn
  }
}

function setPrivateModes(screen: Screen, { values, count }: Parameters, isOn: boolean): void {
  for (let at = 0; at < count; at++) setPrivateMode(screen, values[at] as number, isOn)
}

function setPrivateMode(screen: Screen, mode: number, isOn: boolean): void {
  const { modes } = screen
  const name = privateSwitches[mode]
  if (name !== undefined) modes[name] = isOn
  if (isMouseMode(mode)) modes.mouse = isOn ? mode : 0
  switch (mode) {
    case 6:
      return moveToAddress(screen, 0, 0)
    case 7:
      screen.isWrapPending &&= isOn
      return
    case 47:
    case 1047:
      return isOn ? showAlternate(screen) : showMain(screen)
    case 1048:
      return isOn ? saveCursor(screen) : restoreCursor(screen)
    case 1049:
      if (isOn) {
        if (screen.hiddenLines === null) saveCursor(screen)
        return showAlternate(screen)
      }
      showMain(screen)
      return restoreCursor(screen)
  }
}

function softReset(screen: Screen): void {
  const { reverseScreen, mouse, mouseSgr, focusReports, bracketedPaste } = screen.modes
  Object.assign(screen, {
    modes: { ...defaultModes(), reverseScreen, mouse, mouseSgr, focusReports, bracketedPaste },
    top: 0,
    bottom: screen.rows - 1,
    pen: { foreground: 0, background: 0 },
    charsets: [false, false],
    shift: 0,
    isWrapPending: false
  })
  screen.saved[screen.hiddenLines === null ? 0 : 1] = null
}

/** RIS: restores the initial state, but keeps the history. */
export function fullReset(screen: Screen): void {
  showMain(screen)
  softReset(screen)
  screen.modes = defaultModes()
  screen.saved = [null, null]
  screen.tabs = tabStops(screen.columns)
  screen.lastCode = 0
  eraseInDisplay(screen, 2)
  moveTo(screen, 0, 0)
}
