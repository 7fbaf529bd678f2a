import t from 'tap'
import {
  createLinePrinter,
  createLineReader,
  jsonLine,
  mergeLines,
  namedSources,
  type TailLine
} from '../../../lib/cli/log/log-lines.js'
import { createPaint } from '../../../lib/cli/terminal/output.js'
import type { LogSource } from '../../../lib/model/log-source.js'

const all = { pattern: null, isRaw: false, least: undefined }
const readAll = (
  name: string,
  texts: readonly string[],
  filter: Parameters<typeof createLineReader>[1] = all
): TailLine[] => {
  const read = createLineReader({ name, sourceId: `id-${name}` }, filter)
  return texts.flatMap(text => read(text) ?? [])
}

t.test('keeps the matching lines and their continuation lines', async t => {
  const texts = ['INFO a', 'ERROR b', '    at c', 'WARN d', 'e']
  const shown = (filter: Parameters<typeof createLineReader>[1]): string =>
    readAll('x', texts, filter)
      .map(({ text }) => text.trim().split(' ').at(-1))
      .join('')
  t.equal(shown(all), 'abcde')
  t.equal(shown({ pattern: null, isRaw: false, least: 'error' }), 'bc')
  t.equal(shown({ pattern: null, isRaw: false, least: 'warn' }), 'bcde')
  t.equal(shown({ pattern: /at|INFO/, isRaw: false, least: undefined }), 'ac')
  t.equal(shown({ pattern: /at|INFO/, isRaw: false, least: 'error' }), 'c')
  const coloured = ['\x1b[31mer\x1b[1mror\x1b[0m\ta', 'error b']
  const matched = (pattern: RegExp, isRaw: boolean): string =>
    readAll('x', coloured, { pattern, isRaw, least: undefined })
      .map(({ text }) => text.at(-1))
      .join('')
  t.equal(matched(/^error/, false), 'ab', 'what is printed')
  t.equal(matched(/error\t/, false), 'a')
  t.equal(matched(/^error/, true), 'b', 'what is in the file')
})

t.test('merges logs by time, and each log keeps its order', async t => {
  const one = readAll('one', [
    '  first',
    '2026-11-21T10:00:02Z a',
    '  more of a',
    '2026-11-21T10:00:01Z back',
    '2026-11-21T10:00:05Z b'
  ])
  const two = readAll('two', ['2026-11-21T10:00:01Z x', '2026-11-21T10:00:03Z y'])
  const none = readAll('none', ['untimed'])
  t.same(
    mergeLines([one, two, none]).map(({ text }) => text.trim().split(' ').at(-1)),
    ['x', 'first', 'a', 'a', 'back', 'y', 'b', 'untimed']
  )
})

t.test('for people, a line shows its source if there are several, and its level in colour', async t => {
  const [line] = readAll('app.log', ['12:00 ERROR x']) as [TailLine]
  const plain = createPaint({}, {})
  t.equal(createLinePrinter(['app.log'], plain)(line), '12:00 ERROR x\n')
  t.equal(createLinePrinter(['app.log', 'long-name.log'], plain)(line), 'app.log       | 12:00 ERROR x\n')
  const colored = createPaint({ isTTY: true }, {})
  t.equal(createLinePrinter(['app.log'], colored)(line), '12:00 \x1b[31mERROR\x1b[39m x\n')
  const [own] = readAll('app.log', ['\x1b[32mERROR\x1b[0m x']) as [TailLine]
  t.equal(createLinePrinter(['app.log'], colored)(own), '\x1b[32mERROR\x1b[0m x\n', 'colours of its own stay')
})

t.test('for programs, each line is a JSON object', async t => {
  const [line] = readAll('app.log', ['2026-11-21T10:00:00Z ERROR x']) as [TailLine]
  t.same(JSON.parse(jsonLine(line)), {
    source: 'app.log',
    sourceId: 'id-app.log',
    time: '2026-11-21T10:00:00.000Z',
    level: 'error',
    text: '2026-11-21T10:00:00Z ERROR x'
  })
  t.match(JSON.parse(jsonLine(readAll('a', ['x'])[0] as TailLine)), { time: null, level: null })
})

const source = (id: string, projectId: string, label: string): LogSource => ({
  id,
  projectId,
  label,
  filePath: `/var/log/${label}`,
  kind: 'plain',
  sortOrder: 0,
  createdAt: '',
  updatedAt: ''
})

const known = {
  projects: [
    { id: 'p1', name: 'shop' },
    { id: 'p2', name: 'billing' },
    { id: 'p3', name: 'empty' },
    { id: 'p4', name: 'twin' },
    { id: 'p5', name: 'twin' }
  ],
  sources: [
    source('s1', 'p1', 'access.log'),
    source('s2', 'p1', 'error.log'),
    source('s3', 'p2', 'error.log'),
    source('s4', 'p2', 'a, b')
  ]
}

t.test('a name selects a log source, all sources of a project, or several sources', async t => {
  for (const [word, expected] of [
    ['s1', ['access.log']],
    ['access.log', ['access.log']],
    ['shop', ['access.log', 'error.log']],
    ['p2', ['error.log', 'a, b']],
    ['billing/error.log', ['error.log']],
    ['a, b', ['a, b']],
    ['access.log, s3', ['access.log', 'error.log']],
    ['shop,billing', ['shop/access.log', 'shop/error.log', 'billing/error.log', 'billing/a, b']],
    ['s1,shop', ['access.log', 'error.log']]
  ] as const) {
    t.same(
      namedSources(word, known).map(({ name }) => name),
      expected,
      word
    )
  }
})

t.test('an ambiguous, empty or unknown name is refused with the possible names', async t => {
  t.throws(() => namedSources('error.log', known), {
    code: 'ambiguous_source',
    message: /shop\/error\.log \(log source s2\), billing\/error\.log \(log source s3\)/
  })
  t.throws(() => namedSources('twin', known), {
    code: 'ambiguous_source',
    message: /twin \(project p4\), twin \(project p5\)/
  })
  t.throws(() => namedSources('empty', known), { code: 'no_sources', message: /"empty" has no log sources/ })
  t.throws(() => namedSources('acess.log', known), { code: 'unknown_source', message: /Did you mean "access\.log"/ })
  t.throws(() => namedSources('s1,nothing-like-it', known), { code: 'unknown_source' })
})
