import t from 'tap'
import { createParser, functionId } from '../../../www/terminal/parser.js'
import type { Parameters } from '../../../www/terminal/parser.js'
import { cutsOf } from './screen-table.js'

const hex = (code: number): string => code.toString(16).padStart(2, '0')

/** A function's number as its bytes. */
const bytesOf = (id: number): string => [id >> 16, (id >> 8) & 255, id & 255].filter(byte => byte > 0).map(byte => String.fromCharCode(byte)).join('')

function list({ values, isSub, count }: Parameters): string {
  let text = ''
  for (let at = 0; at < count; at++) text += `${at === 0 ? '' : isSub[at] === 1 ? ':' : ';'}${values[at]}`
  return text
}

/** What a parser calls, in words; printed text that was cut is put together again. */
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
  ['text', 'ab 部署 é 🚀', ['print ab 部署 é 🚀']],
  ['text above the C1 controls', '\xa0\xff', ['print \xa0\xff']],
  ['controls between text', 'a\r\nb\x07', ['print a', 'control 0d', 'control 0a', 'print b', 'control 07']],
  ['DEL is nothing', 'a\x7fb', ['print ab']],
  ['an escape', '\x1b7\x1b#8\x1b(0', ['escape 7', 'escape #8', 'escape (0']],
  ['one with two intermediates is ignored', '\x1b (0x', ['print x']],
  ['a C1 control is an escape', 'a\x84b\x9b1Ac\x9d2;t\x9cd', ['print a', 'escape D', 'print b', 'csi A 1', 'print c', 'osc 2;t', 'print d']],
  ['CSI without parameters has one', '\x1b[m', ['csi m 0']],
  ['CSI with parameters', '\x1b[1;23;;4H', ['csi H 1;23;0;4']],
  ['CSI with sub-parameters', '\x1b[38:2::1:2:3;4:3m', ['csi m 38:2:0:1:2:3;4:3']],
  ['CSI with a prefix and an intermediate', '\x1b[?25h\x1b[>c\x1b[!p\x1b[?1$p\x1b[2 q', ['csi ?h 25', 'csi >c 0', 'csi !p 0', 'csi ?$p 1', 'csi  q 2']],
  ['a prefix in the wrong place', '\x1b[1?hx', ['print x']],
  ['parameters after an intermediate', '\x1b[1 2qx', ['print x']],
  ['two intermediates', '\x1b[1 !px', ['print x']],
  ['a value has a limit', '\x1b[123456789A', ['csi A 65535']],
  ['controls act within', '\x1b[1\n2A', ['control 0a', 'csi A 12']],
  ['text above ASCII within is ignored', '\x1b[1é2A', ['csi A 12']],
  ['CAN and SUB end it', '\x1b[1\x18A\x1b[2\x1aB', ['control 18', 'print A', 'control 1a', 'print B']],
  ['ESC begins anew', '\x1b[1\x1b[2A', ['csi A 2']],
  ['OSC ends with BEL', '\x1b]0;a title\x07x', ['osc 0;a title', 'print x']],
  ['OSC ends with ST', '\x1b]2;部\x1b\\x', ['osc 2;部', 'escape \\', 'print x']],
  ['OSC: controls within are ignored', '\x1b]2;a\nb\x7fc\x07', ['osc 2;abc']],
  ['OSC that CAN ends is dropped', '\x1b]2;a\x18b', ['control 18', 'print b']],
  ['OSC that ESC cuts is handed over', '\x1b]2;a\x1b[1mb', ['osc 2;a', 'csi m 1', 'print b']],
  ['DCS', '\x1bP1;2$qm\x1b\\x', ['dcs $q 1;2 m', 'escape \\', 'print x']],
  ['DCS with BEL in it', '\x1bPqa\x07b\x9cx', ['dcs q 0 ab', 'print x']],
  ['DCS that is none', '\x1bP1?qabc\x1b\\x', ['escape \\', 'print x']],
  ['SOS, PM and APC are dropped', '\x1bXa\x1b\\\x1b^b\x1b\\\x1b_c\nd\x1b\\x', ['escape \\', 'escape \\', 'escape \\', 'print x']]
]

for (const [what, input, calls] of cases) {
  t.test(what, async t => {
    for (const { how, pieces } of cutsOf(input)) t.same(callsOf(pieces), calls, how)
  })
}

t.test('a surrogate pair is never cut, and a lone half is kept back only until the next text', async t => {
  const printed: string[] = []
  const nothing = (): void => {}
  const parser = createParser({
    print: (text, from, to) => void printed.push(text.slice(from, to)),
    control: nothing, escape: nothing, csi: nothing, osc: nothing, dcs: nothing
  })
  parser.push('a\ud83d')
  t.same(printed, ['a'])
  parser.push('\ude80b')
  t.same(printed, ['a', '🚀b'])
  parser.push('\ud83d')
  parser.push('x')
  t.equal(printed.join(''), 'a🚀b\ud83dx')
})

t.test('limits: 32 parameters, 64 Ki characters of a string', async t => {
  t.equal(callsOf([`\x1b[${'1;'.repeat(99)}m`])[0]?.split(';').length, 32)
  t.equal(callsOf([`\x1b]2;${'a'.repeat(65_534)}\x07`])[0]?.length, 65_540)
  t.same(callsOf([`\x1b]2;${'a'.repeat(65_535)}\x07x`]), ['print x'], 'a longer one is dropped')
  t.same(callsOf(['\x1bPq', ...Array(100).fill('a'.repeat(1000)), '\x1b\\x']), ['escape \\', 'print x'])
})

t.test('reset forgets what was begun', async t => {
  const calls: string[] = []
  const nothing = (): void => {}
  const parser = createParser({
    print: (text, from, to) => void calls.push(text.slice(from, to)),
    control: nothing, escape: nothing, csi: () => void calls.push('csi'), osc: nothing, dcs: nothing
  })
  parser.push('\x1b[1;2')
  parser.reset()
  parser.push('3m')
  t.same(calls, ['3m'])
})

t.test('every pair of bytes leads somewhere, and ST and text bring everything back to ground', async t => {
  for (let first = 0; first < 256; first++) {
    for (let second = 0; second < 256; second++) {
      const calls = callsOf([String.fromCharCode(0x1b, first, second), '\x18', 'ok'])
      if (calls.at(-1)?.endsWith('ok') !== true) t.fail(`${hex(first)} ${hex(second)}`)
    }
  }
  t.equal(functionId('?$p'), (0x3f << 16) | (0x24 << 8) | 0x70)
})
