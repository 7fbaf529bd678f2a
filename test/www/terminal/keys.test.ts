import t from 'tap'
import { bytesOfKey, bytesOfMouse, bytesOfPaste, type KeyPress, type MouseReport } from '../../../www/terminal/keys.js'

const plain = { applicationCursor: false, applicationKeypad: false, newline: false }

/** A key in the notation of Emacs: `C-`, `A-`, `S-`, `M-`, then KeyboardEvent.key. */
function press(name: string): KeyPress {
  const [, held = '', key = ''] = /^((?:[CASM]-)*)(.+)$/s.exec(name) ?? []
  const has = (letter: string): boolean => held.includes(`${letter}-`)
  return { key, isControl: has('C'), isAlt: has('A'), isShift: has('S'), isMeta: has('M') }
}

const cases: Array<[keys: string, bytes: string | null]> = [
  ['a', 'a'],
  ['S-A', 'A'],
  ['é', 'é'],
  ['部', '部'],
  ['🚀', '🚀'],
  [' ', ' '],
  ['A-a', '\x1ba'],
  ['C-a', '\x01'],
  ['C-S-A', '\x01'],
  ['C-z', '\x1a'],
  ['C-A-a', '\x1b\x01'],
  ['C- ', '\0'],
  ['C-@', '\0'],
  ['C-[', '\x1b'],
  ['C-\\', '\x1c'],
  ['C-]', '\x1d'],
  ['C-^', '\x1e'],
  ['C-_', '\x1f'],
  ['C-/', '\x1f'],
  ['C-2', '\0'],
  ['C-3', '\x1b'],
  ['C-8', '\x7f'],
  ['C-1', null],
  ['C-é', null],
  ['Enter', '\r'],
  ['A-Enter', '\x1b\r'],
  ['Tab', '\t'],
  ['S-Tab', '\x1b[Z'],
  ['A-Tab', '\x1b\t'],
  ['Backspace', '\x7f'],
  ['C-Backspace', '\b'],
  ['A-Backspace', '\x1b\x7f'],
  ['Escape', '\x1b'],
  ['A-Escape', '\x1b\x1b'],
  ['ArrowUp', '\x1b[A'],
  ['ArrowDown', '\x1b[B'],
  ['ArrowRight', '\x1b[C'],
  ['ArrowLeft', '\x1b[D'],
  ['Home', '\x1b[H'],
  ['End', '\x1b[F'],
  ['S-ArrowUp', '\x1b[1;2A'],
  ['A-ArrowUp', '\x1b[1;3A'],
  ['C-ArrowLeft', '\x1b[1;5D'],
  ['C-A-S-End', '\x1b[1;8F'],
  ['Insert', '\x1b[2~'],
  ['Delete', '\x1b[3~'],
  ['PageUp', '\x1b[5~'],
  ['PageDown', '\x1b[6~'],
  ['C-Delete', '\x1b[3;5~'],
  ['F1', '\x1bOP'],
  ['F4', '\x1bOS'],
  ['S-F1', '\x1b[1;2P'],
  ['F5', '\x1b[15~'],
  ['F6', '\x1b[17~'],
  ['F10', '\x1b[21~'],
  ['F11', '\x1b[23~'],
  ['F12', '\x1b[24~'],
  ['C-F5', '\x1b[15;5~'],
  ['M-c', null],
  ['Shift', null],
  ['Control', null],
  ['Dead', null],
  ['Process', null],
  ['F13', null]
]

t.test('encodes keys like xterm', async t => {
  for (const [name, bytes] of cases) t.equal(bytesOfKey(press(name), plain), bytes, name)
})

t.test('encodes cursor keys in application mode', async t => {
  const modes = { ...plain, applicationCursor: true }
  for (const [name, bytes] of [
    ['ArrowUp', '\x1bOA'],
    ['Home', '\x1bOH'],
    ['End', '\x1bOF'],
    ['C-ArrowUp', '\x1b[1;5A'],
    ['PageUp', '\x1b[5~']
  ]) {
    t.equal(bytesOfKey(press(name as string), modes), bytes as string, name as string)
  }
})

t.test('encodes the keypad in application mode, unless Num Lock is on', async t => {
  const modes = { ...plain, applicationKeypad: true }
  const key = (key: string, isNumLocked: boolean): string | null =>
    bytesOfKey({ key, isKeypad: true, isNumLocked }, modes)
  t.equal(key('Enter', false), '\x1bOM')
  t.equal(key('+', false), '\x1bOk')
  t.equal(key('Enter', true), '\r')
  t.equal(key('5', true), '5')
  t.equal(key('ArrowUp', false), '\x1b[A')
  t.equal(bytesOfKey({ key: 'Enter', isKeypad: true }, plain), '\r')
  t.equal(bytesOfKey({ key: 'Enter' }, modes), '\r')
})

t.test('sends two characters for Enter in LNM, and the character of the key with AltGr', async t => {
  t.equal(bytesOfKey({ key: 'Enter' }, { ...plain, newline: true }), '\r\n')
  t.equal(bytesOfKey({ key: '@', isControl: true, isAlt: true, isAltGraph: true }, plain), '@')
})

type Modes = Parameters<typeof bytesOfMouse>[1]

const at = { x: 4, y: 2 }
const events: Record<string, MouseReport> = {
  press: { kind: 'press', button: 0, ...at },
  right: { kind: 'press', button: 2, ...at, isShift: true, isAlt: true, isControl: true },
  release: { kind: 'release', button: 0, ...at },
  drag: { kind: 'move', button: 0, ...at },
  move: { kind: 'move', button: null, ...at },
  up: { kind: 'wheel', button: 0, ...at },
  down: { kind: 'wheel', button: 1, ...at }
}

const mouseCases: Array<[mode: Modes['mouse'], bytes: Record<string, string | null>]> = [
  [0, { press: null, release: null, drag: null, move: null, up: null }],
  [9, { press: '\x1b[<0;5;3M', right: '\x1b[<2;5;3M', release: null, drag: null, move: null, up: null }],
  [
    1000,
    {
      press: '\x1b[<0;5;3M',
      right: '\x1b[<30;5;3M',
      release: '\x1b[<0;5;3m',
      drag: null,
      move: null,
      up: '\x1b[<64;5;3M',
      down: '\x1b[<65;5;3M'
    }
  ],
  [1002, { press: '\x1b[<0;5;3M', release: '\x1b[<0;5;3m', drag: '\x1b[<32;5;3M', move: null }],
  [1003, { drag: '\x1b[<32;5;3M', move: '\x1b[<35;5;3M' }]
]

for (const [mouse, expected] of mouseCases) {
  t.test(`reports the events of mode ${mouse}`, async t => {
    for (const [name, bytes] of Object.entries(expected)) {
      t.equal(bytesOfMouse(events[name] as MouseReport, { mouse, mouseSgr: true }), bytes, name)
    }
  })
}

t.test('uses one byte per coordinate in the old encoding, and reports none that does not fit', async t => {
  const modes = { mouse: 1002, mouseSgr: false } as const
  t.equal(bytesOfMouse(events['press'] as MouseReport, modes), '\x1b[M %#')
  t.equal(bytesOfMouse(events['release'] as MouseReport, modes), '\x1b[M#%#')
  t.equal(bytesOfMouse(events['drag'] as MouseReport, modes), '\x1b[M@%#')
  t.equal(bytesOfMouse({ kind: 'press', button: 0, x: 94, y: 0 }, modes), '\x1b[M \x7f!')
  t.equal(bytesOfMouse({ kind: 'press', button: 0, x: 95, y: 0 }, modes), null)
})

const pasteCases: Array<[what: string, text: string, bytes: string]> = [
  ['sends line ends as Enter', 'a\nb\r\nc\rd', 'a\rb\rc\rd'],
  ['keeps tabs', 'a\tb', 'a\tb'],
  ['removes escapes', 'a\x1b[201~rm -rf\x9b1mb', 'a[201~rm -rf1mb'],
  ['removes other control characters', 'a\x00\x03\x04\x08\x7f\x85b', 'ab'],
  ['keeps other text', '部署 🚀', '部署 🚀']
]

for (const [what, text, bytes] of pasteCases) {
  t.test(what, async t => {
    t.equal(bytesOfPaste(text, { bracketedPaste: false }), bytes)
    t.equal(bytesOfPaste(text, { bracketedPaste: true }), `\x1b[200~${bytes}\x1b[201~`, 'bracketed')
  })
}
