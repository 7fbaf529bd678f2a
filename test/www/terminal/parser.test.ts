import t from 'tap'
import { createParser, functionId, type Parameters } from '../../../www/terminal/parser.js'
import { cutsOf } from './screen-table.js'

const hex = (code: number): string => code.toString(16).padStart(2, '0')

/** Returns the bytes of a function's number. */
const bytesOf = (id: number): string =>
  [id >> 16, (id >> 8) & 255, id & 255]
    .filter(byte => byte > 0)
    .map(byte => String.fromCharCode(byte))
    .join('')

function list({ values, isSub, count }: Parameters): string {
  let text = ''
  for (let at = 0; at < count; at++) text += `${at === 0 ? '' : isSub[at] === 1 ? ':' : ';'}${values[at]}`
  return text
}

/** Returns the calls of a parser as text. Joins printed text that was cut. */
function callsOf(pieces: string[]): string[] {
  const calls: string[] = []
  const parser = createParser({
    print(text, from, to) {
      const last = calls[calls.length - 1]
      const piece = text.slice(from, to)
      if (last?.startsWith('print ') === true) calls[calls.length - 1] = last + piece
      else calls.push(`print ${piece}`)
    },
    control: code => void calls.push(`control ${hex(code)}`),
    escape: id => void calls.push(`escape ${bytesOf(id)}`),
    csi: (id, parameters) => void calls.push(`csi ${bytesOf(id)} ${list(parameters)}`),
    osc: text => void calls.push(`osc ${text}`),
    dcs: (id, parameters, text) => void calls.push(`dcs ${bytesOf(id)} ${list(parameters)} ${text}`)
  })
  for (const piece of pieces) parser.push(piece)
  return calls
}

const cases: Array<[what: string, input: string, calls: string[]]> = [
  ['prints text', 'ab 部署 é 🚀', ['print ab 部署 é 🚀']],
  ['prints text above the C1 controls', '\xa0\xff', ['print \xa0\xff']],
  ['delivers controls between text', 'a\r\nb\x07', ['print a', 'control 0d', 'control 0a', 'print b', 'control 07']],
  ['ignores DEL', 'a\x7fb', ['print ab']],
  ['delivers an escape sequence', '\x1b7\x1b#8\x1b(0', ['escape 7', 'escape #8', 'escape (0']],
  ['ignores an escape sequence with two intermediates', '\x1b (0x', ['print x']],
  [
    'delivers a C1 control as an escape sequence',
    'a\x84b\x9b1Ac\x9d2;t\x9cd',
    ['print a', 'escape D', 'print b', 'csi A 1', 'print c', 'osc 2;t', 'print d']
  ],
  ['delivers one parameter for a CSI without parameters', '\x1b[m', ['csi m 0']],
  ['delivers the parameters of a CSI', '\x1b[1;23;;4H', ['csi H 1;23;0;4']],
  ['delivers the sub-parameters of a CSI', '\x1b[38:2::1:2:3;4:3m', ['csi m 38:2:0:1:2:3;4:3']],
  [
    'delivers the prefix and the intermediate of a CSI',
    '\x1b[?25h\x1b[>c\x1b[!p\x1b[?1$p\x1b[2 q',
    ['csi ?h 25', 'csi >c 0', 'csi !p 0', 'csi ?$p 1', 'csi  q 2']
  ],
  ['ignores a CSI with a prefix after a parameter', '\x1b[1?hx', ['print x']],
  ['ignores a CSI with a parameter after an intermediate', '\x1b[1 2qx', ['print x']],
  ['ignores a CSI with two intermediates', '\x1b[1 !px', ['print x']],
  ['limits the value of a parameter', '\x1b[123456789A', ['csi A 65535']],
  ['delivers controls within a CSI', '\x1b[1\n2A', ['control 0a', 'csi A 12']],
  ['ignores text above ASCII within a CSI', '\x1b[1é2A', ['csi A 12']],
  ['ends a CSI at CAN and SUB', '\x1b[1\x18A\x1b[2\x1aB', ['control 18', 'print A', 'control 1a', 'print B']],
  ['begins a new sequence at ESC', '\x1b[1\x1b[2A', ['csi A 2']],
  ['ends an OSC at BEL', '\x1b]0;a title\x07x', ['osc 0;a title', 'print x']],
  ['ends an OSC at ST', '\x1b]2;部\x1b\\x', ['osc 2;部', 'escape \\', 'print x']],
  ['ignores controls within an OSC', '\x1b]2;a\nb\x7fc\x07', ['osc 2;abc']],
  ['drops an OSC that CAN ends', '\x1b]2;a\x18b', ['control 18', 'print b']],
  ['delivers an OSC that ESC ends', '\x1b]2;a\x1b[1mb', ['osc 2;a', 'csi m 1', 'print b']],
  ['delivers a DCS', '\x1bP1;2$qm\x1b\\x', ['dcs $q 1;2 m', 'escape \\', 'print x']],
  ['ignores BEL within a DCS', '\x1bPqa\x07b\x9cx', ['dcs q 0 ab', 'print x']],
  ['ignores an invalid DCS', '\x1bP1?qabc\x1b\\x', ['escape \\', 'print x']],
  [
    'drops SOS, PM and APC',
    '\x1bXa\x1b\\\x1b^b\x1b\\\x1b_c\nd\x1b\\x',
    ['escape \\', 'escape \\', 'escape \\', 'print x']
  ]
]

for (const [what, input, calls] of cases) {
  t.test(what, async t => {
    for (const { how, pieces } of cutsOf(input)) t.same(callsOf(pieces), calls, how)
  })
}

t.test('never cuts a surrogate pair, and holds a lone half back only until the next text', async t => {
  const printed: string[] = []
  const nothing = (): void => {}
  const parser = createParser({
    print: (text, from, to) => void printed.push(text.slice(from, to)),
    control: nothing,
    escape: nothing,
    csi: nothing,
    osc: nothing,
    dcs: nothing
  })
  parser.push('a\ud83d')
  t.same(printed, ['a'])
  parser.push('\ude80b')
  t.same(printed, ['a', '🚀b'])
  parser.push('\ud83d')
  parser.push('x')
  t.equal(printed.join(''), 'a🚀b\ud83dx')
})

t.test('limits a function to 32 parameters and a string to 64 Ki characters', async t => {
  t.equal(callsOf([`\x1b[${'1;'.repeat(99)}m`])[0]?.split(';').length, 32)
  t.equal(callsOf([`\x1b]2;${'a'.repeat(65_534)}\x07`])[0]?.length, 65_540)
  t.same(callsOf([`\x1b]2;${'a'.repeat(65_535)}\x07x`]), ['print x'], 'a longer string is dropped')
  t.same(callsOf(['\x1bPq', ...Array(100).fill('a'.repeat(1000)), '\x1b\\x']), ['escape \\', 'print x'])
})

t.test('reset drops an incomplete sequence', async t => {
  const calls: string[] = []
  const nothing = (): void => {}
  const parser = createParser({
    print: (text, from, to) => void calls.push(text.slice(from, to)),
    control: nothing,
    escape: nothing,
    csi: () => void calls.push('csi'),
    osc: nothing,
    dcs: nothing
  })
  parser.push('\x1b[1;2')
  parser.reset()
  parser.push('3m')
  t.same(calls, ['3m'])
})

t.test('accepts every pair of bytes, and returns to the ground state after ST and text', async t => {
  for (let first = 0; first < 256; first++) {
    for (let second = 0; second < 256; second++) {
      const calls = callsOf([String.fromCharCode(0x1b, first, second), '\x18', 'ok'])
      if (calls.at(-1)?.endsWith('ok') !== true) t.fail(`${hex(first)} ${hex(second)}`)
    }
  }
  t.equal(functionId('?$p'), (0x3f << 16) | (0x24 << 8) | 0x70)
})
