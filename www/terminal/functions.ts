/*
 * The tables of control functions that change the screen. Those that reply to the program are the last table.
 *
 * Standards: ECMA-48 and DEC STD 070. For functions that they do not specify: XTerm Control Sequences
 * (invisible-island.net/xterm/ctlseqs).
 */
import {
  ansiSwitches,
  defaultModes,
  index,
  isMouseMode,
  moveTo,
  moveToAddress,
  moveVertically,
  privateSwitches,
  restoreCursor,
  reverseIndex,
  saveCursor,
  type Screen,
  scrollDown,
  scrollUp,
  showAlternate,
  showMain,
  tab,
  tabStops
} from './screen.js'
import { functionId, type Parameters } from './parser.js'
import { renditionOf, selectRendition } from './cells.js'
import {
  deleteCharacters,
  deleteLines,
  eraseCharacters,
  eraseInDisplay,
  eraseInLine,
  fillWithE,
  insertCharacters,
  insertLines,
  printCode
} from './edit.js'

/*
 * The replies to requests of a program. The terminal identifies itself as a VT420 with colours and as xterm 354. vim
 * requests that version number and uses the SGR mouse encoding if it is new enough.
 */

/** Red, green and blue, each 0 to 255. */
export type Rgb = readonly [number, number, number]

/** Returns a colour of the palette by its index, or a colour of the theme by its name; null if it is unknown. */
export type ColorOf = (which: number | 'foreground' | 'background' | 'cursor') => Rgb | null

const csi = '\x1b['
const dcs = '\x1bP'
const osc = '\x1b]'
const st = '\x1b\\'

type Answer = (screen: Screen, parameters: Parameters) => string | null

const answers: Array<[name: string, bytes: string, answer: Answer]> = [
  ['DA1', 'c', (_, { values }) => (values[0] === 0 ? `${csi}?64;1;22c` : null)],
  ['DA2', '>c', (_, { values }) => (values[0] === 0 ? `${csi}>41;354;0c` : null)],
  [
    'DSR',
    'n',
    (screen, { values }) => {
      if (values[0] === 5) return `${csi}0n`
      return values[0] === 6 ? `${csi}${cursorReport(screen)}R` : null
    }
  ],
  ['DECDSR', '?n', (screen, { values }) => (values[0] === 6 ? `${csi}?${cursorReport(screen)}R` : null)],
  ['DECRQM', '$p', (screen, { values }) => `${csi}${values[0]};${ansiMode(screen, values[0] as number)}$y`],
  ['DECRQM', '?$p', (screen, { values }) => `${csi}?${values[0]};${privateMode(screen, values[0] as number)}$y`],
  ['XTVERSION', '>q', (_, { values }) => (values[0] === 0 ? `${dcs}>|svc${st}` : null)],
  ['XTWINOPS', 't', ({ rows, columns }, { values }) => (values[0] === 18 ? `${csi}8;${rows};${columns}t` : null)]
]

/** Replies to control sequences, by function. */
export const csiAnswers: ReadonlyMap<number, Answer> = new Map(
  answers.map(([, bytes, answer]) => [functionId(bytes), answer])
)

const cursorReport = ({ x, y, top, modes }: Screen): string => `${y + 1 - (modes.origin ? top : 0)};${x + 1}`

/** Returns the state of a mode for DECRPM: 0 unknown, 1 set, 2 reset. */
function ansiMode({ modes }: Screen, mode: number): number {
  const name = ansiSwitches[mode]
  return name === undefined ? 0 : modes[name] ? 1 : 2
}

function privateMode({ modes, hiddenLines }: Screen, mode: number): number {
  if (mode === 47 || mode === 1047 || mode === 1049) return hiddenLines === null ? 2 : 1
  if (isMouseMode(mode)) return modes.mouse === mode ? 1 : 2
  const name = privateSwitches[mode]
  return name === undefined ? 0 : modes[name] ? 1 : 2
}

const requestSetting = functionId('$q')
const requestTermcap = functionId('+q')

/**
 * Returns the reply to a device control string: DECRQSS, which requests a setting, or XTGETTCAP, which requests a
 * capability and is always refused.
 */
export function dcsAnswer(
  { screen, cursorStyle }: { screen: Screen; cursorStyle: number },
  id: number,
  text: string
): string | null {
  if (id === requestTermcap) return `${dcs}0+r${st}`
  if (id !== requestSetting) return null
  switch (text) {
    case 'm':
      return `${dcs}1$r${renditionOf(screen.pen)}m${st}`
    case 'r':
      return `${dcs}1$r${screen.top + 1};${screen.bottom + 1}r${st}`
    case ' q':
      return `${dcs}1$r${cursorStyle} q${st}`
    case '"p':
      return `${dcs}1$r64;1"p${st}`
  }
  return `${dcs}0$r${st}`
}

/** Returns the replies to colour queries (`?`) of OSC 4, 10, 11 and 12. Changing the theme's colours is refused. */
export function colorAnswer(command: number, text: string, colorOf: ColorOf): string {
  const fixed = ({ 10: 'foreground', 11: 'background', 12: 'cursor' } as const)[command]
  if (fixed !== undefined) return text === '?' ? colorReport(String(command), colorOf(fixed)) : ''
  const words = text.split(';')
  let answer = ''
  for (let at = 0; at + 1 < words.length; at += 2) {
    const index = Number(words[at])
    if (words[at + 1] !== '?' || !Number.isInteger(index) || index < 0 || index > 255) continue
    answer += colorReport(`4;${index}`, colorOf(index))
  }
  return answer
}

/** Formats a colour as in X11: each component has 16 bits, its byte doubled. */
function colorReport(what: string, color: Rgb | null): string {
  if (color === null) return ''
  const parts = color.map(part => part.toString(16).padStart(2, '0').repeat(2))
  return `${osc}${what};rgb:${parts.join('/')}${st}`
}

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
