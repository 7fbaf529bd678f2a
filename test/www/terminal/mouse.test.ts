import t from 'tap'
import { bytesOfMouse, type MouseReport } from '../../../www/terminal/mouse.js'

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

const cases: Array<[mode: Modes['mouse'], bytes: Record<string, string | null>]> = [
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

for (const [mouse, expected] of cases) {
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
