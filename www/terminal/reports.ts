import { ansiSwitches, isMouseMode, privateSwitches } from './modes.js'
import { functionId, type Parameters } from './parser.js'
import type { Screen } from './screen.js'
import { renditionOf } from './sgr.js'

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
