import t from 'tap'
import { PassThrough } from 'node:stream'
import { createOutput } from '../../../lib/cli/terminal/output.js'

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
