import t from 'tap'
import { PassThrough } from 'node:stream'
import { widthOf } from '../../../lib/cli/terminal/columns.js'
import {
  createOutput,
  createPaint,
  type Look,
  startProgress,
  isCi,
  isScreen
} from '../../../lib/cli/terminal/output.js'

/** Streams as a terminal of some columns has them, or none. */
function streams(columns?: number) {
  const make = () =>
    Object.assign(new PassThrough({ encoding: 'utf8' }), columns === undefined ? {} : { isTTY: true, columns })
  const stdout = make()
  const stderr = make()
  return {
    output: createOutput({ stdout: stdout as never, stderr: stderr as never, env: {} }),
    read: () => [stdout.read(), stderr.read()]
  }
}

t.test('prints results to stdout and messages to stderr', async t => {
  const { output, read } = streams()
  output.print('result')
  output.note('note')
  output.warn('careful')
  output.error('broken')
  t.same(read(), ['result\n', 'note\nwarning: careful\nerror: broken\n'])
  output.json({ a: [1] })
  await output.write('bytes')
  t.same(read(), ['{\n  "a": [\n    1\n  ]\n}\nbytes', null])
})

t.test('a result is JSON, a sentence or lines, and a list JSON, a table, or a note if it is empty', async t => {
  const { output, read } = streams()
  output.result(true, { a: 1 }, 'one')
  output.result(false, { a: 1 }, 'one')
  output.result(false, { a: 1 }, () => ['two', 'three'])
  output.result(true, null, () => t.fail('is not needed') as never)
  t.same(read(), ['{\n  "a": 1\n}\none\ntwo\nthree\nnull\n', null])
  const shown = { empty: 'No rows.', columns: [{ header: 'A', cell: (row: string) => row }] }
  output.list(true, ['x'], shown)
  output.list(false, ['x'], shown)
  t.same(read(), ['[\n  "x"\n]\nA\nx\n', null])
  output.list(true, [], shown)
  output.list(false, [], shown)
  t.same(read(), ['[]\n', 'No rows.\n'])
})

t.test('a table fits the terminal and is not cut elsewhere', async t => {
  const rows = ['x'.repeat(30)]
  const columns = [{ header: 'A', cell: (row: string) => row, shrinkTo: 5 }]
  const terminal = streams(20)
  terminal.output.table(rows, columns)
  t.equal(terminal.read()[0], `\x1b[1mA\x1b[22m\n${'x'.repeat(19)}…\n`)
  const file = streams()
  file.output.table(rows, columns)
  t.equal(file.read()[0], `A\n${'x'.repeat(30)}\n`)
})

t.test('progress is a bar on a terminal and two lines elsewhere', async t => {
  const terminal = streams(80)
  const bar = terminal.output.progress('Packing')
  bar.update(512, 1024)
  bar.update(600, 1024)
  bar.end('Packed')
  const drawn = terminal.read()[1] as string
  t.match(drawn, /^\r\x1b\[KPacking .*█{12}.*░{12}.* 50% of 1\.0 KB\r\x1b\[KPacked\n$/, 'drawn once in 100 ms')
  const file = streams()
  const lines = file.output.progress('Packing')
  lines.update(1, 2)
  lines.end('Packed')
  t.equal(file.read()[1], 'Packing…\nPacked\n')
})

t.test('in log format, every line is an object with a time and a level', async t => {
  const { output, read } = streams(80)
  output.logAsJson()
  output.print('result')
  output.note('note')
  output.warn('careful')
  output.warn('text', { message: 'GET / failed (1a2b)', error: new TypeError('two\nlines') })
  output.warn('text', { message: 'odd', error: 'no error' })
  output.error('broken "quotes" and\nlines')
  const [stdout, stderr] = read() as [string, string]
  const records = (stdout + stderr)
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line) as Record<string, string>)
  for (const { time } of records) t.match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  t.match(records, [
    { level: 'info', message: 'result' },
    { level: 'info', message: 'note' },
    { level: 'warn', message: 'careful' },
    { level: 'error', message: 'GET / failed (1a2b): two\nlines', stack: /^TypeError: two\nlines\n +at / },
    { level: 'error', message: 'text' },
    { level: 'error', message: 'broken "quotes" and\nlines' }
  ])
  t.notMatch(stdout + stderr, '\x1b', 'no colours, on a terminal either')
})

const cases: Array<[what: string, isTTY: boolean, env: Record<string, string>, colored: boolean]> = [
  ['a terminal', true, {}, true],
  ['no terminal', false, {}, false],
  ['a dumb terminal', true, { TERM: 'dumb' }, false],
  ['NO_COLOR', true, { NO_COLOR: '1' }, false],
  ['an empty NO_COLOR', true, { NO_COLOR: '' }, true],
  ['FORCE_COLOR', false, { FORCE_COLOR: '1' }, true],
  ['FORCE_COLOR=0', true, { FORCE_COLOR: '0' }, false],
  ['FORCE_COLOR over NO_COLOR', false, { FORCE_COLOR: '1', NO_COLOR: '1' }, true]
]

for (const [what, isTTY, env, colored] of cases) {
  t.test(`createPaint: ${what} ${colored ? 'has' : 'has no'} colours`, async t => {
    t.equal(createPaint({ isTTY }, env).red('x'), colored ? '\x1b[31mx\x1b[39m' : 'x')
  })
}

const paint = { green: (text: string) => text, dim: (text: string) => text } as unknown as Look['paint']

function stage(isTTY: boolean, columns?: number) {
  const stream = Object.assign(new PassThrough().setEncoding('utf8'), {
    isTTY,
    ...(columns === undefined ? {} : { columns })
  })
  const said = (): string => (stream.read() as string | null) ?? ''
  const start = (label: string, inWords?: (amount: number) => string) =>
    startProgress(
      stream as unknown as NodeJS.WriteStream,
      { paint, isDrawn: isTTY, lineEveryMs: 20 },
      { label, inWords }
    )
  return { start, said }
}

t.test('without a terminal, a long wait is not silent', async t => {
  const { start, said } = stage(false)
  const progress = start('Uploading')
  progress.update(512, 1024)
  let text = ''
  for (let tries = 0; tries < 200 && !text.includes('512 B of 1.0 KB'); tries++) {
    await new Promise(resolve => setTimeout(resolve, 10))
    text += said()
  }
  progress.end('Uploaded')
  t.match(text + said(), /^Uploading…\n(Uploading… 0\.\ds, 512 B of 1\.0 KB\n)+Uploaded\n$/)
})

t.test('without a terminal, progress prints two lines', async t => {
  const { start, said } = stage(false)
  const progress = start('Packing')
  progress.update(1, 2)
  progress.clear()
  progress.end('Packed')
  t.equal(said(), 'Packing…\nPacked\n')
})

t.test('a bar shows the part that is done', async t => {
  for (const [done, all, percent, full] of [
    [0, 100, 0, 0],
    [50, 100, 50, 12],
    [100, 100, 100, 24],
    [150, 100, 100, 24],
    [0, 0, 100, 24]
  ] as const) {
    const { start, said } = stage(true)
    start('Packing').update(done, all)
    const bar = said()
    t.match(bar, `\r\x1b[KPacking ${'█'.repeat(full)}${'░'.repeat(24 - full)} ${percent}% of `, `${done} of ${all}`)
    t.notMatch(bar, /left|\/s/, 'no rate of a moment')
  }
  const { start, said } = stage(true)
  const progress = start('Packing')
  progress.update(1, 4)
  t.match(said(), '25%')
  progress.update(2, 4)
  t.equal(said(), '', 'it is not drawn again at once')
  progress.end('Packed')
  progress.clear()
  t.equal(said(), '\r\x1b[KPacked\n\r\x1b[K')
})

t.test('a narrow terminal cuts the text, and then the label', async t => {
  for (const columns of [46, 60, 80]) {
    const { start, said } = stage(true, columns)
    start('A label that is rather long for what there is').update(1, 2)
    const line = said().replace('\r\x1b[K', '')
    t.ok(widthOf(line) < columns, `${columns} columns: ${line}`)
  }
})

t.test('a bar can count other things than bytes', async t => {
  const { start, said } = stage(true)
  start('Verifying', files => `${files} files`).update(5, 10)
  t.match(said(), /Verifying █+░+ 50% of 10 files/)
})

t.test('nobody watches the terminal of a CI job', t => {
  for (const CI of ['true', '1', 'woodpecker']) {
    t.ok(isCi({ CI }), CI)
    t.notOk(isScreen({ isTTY: true }, { CI, TERM: 'xterm' }), CI)
  }
  for (const CI of ['', '0', 'false', 'False', undefined]) {
    t.notOk(isCi({ CI }), `${CI}`)
    t.ok(isScreen({ isTTY: true }, { CI, TERM: 'xterm' }), `${CI}`)
  }
  t.notOk(isScreen({ isTTY: true }, { TERM: 'dumb' }))
  t.notOk(isScreen({}, { TERM: 'xterm' }))
  t.end()
})
