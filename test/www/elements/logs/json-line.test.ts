import t from 'tap'
import { jsonColumns, jsonSpans } from '../../../../www/elements/logs/json-line.js'

const shown = (text: string): string | undefined =>
  jsonSpans(jsonColumns(text))
    ?.map(span => span.text)
    .join('')

t.test('splits lines of common loggers into columns', async t => {
  for (const [line, expected] of [
    [
      '{"level":30,"time":1795262651123,"pid":7,"msg":"listening"}',
      '2026-11-21T12:04:11.123Z  INFO   listening  pid=7'
    ],
    [
      '{"level":"error","ts":1795262651.5,"msg":"x","error":"no such file"}',
      '2026-11-21T12:04:11.500Z  ERROR  x  error="no such file"'
    ],
    [
      '{"@timestamp":"2026-11-21T12:04:11Z","severity":"warning","message":"slow"}',
      '2026-11-21T12:04:11Z      WARNING  slow'
    ],
    ['{"msg":"two\\nlines","a":{"b":[1,null]}}', 'two lines  a={"b":[1,null]}'],
    ['{"msg":"\\u001b[31mred"}', 'red'],
    ['{}', '']
  ] as const) {
    t.equal(shown(line), expected, line)
  }
})

t.test('returns null for lines that are not JSON objects', async t => {
  for (const line of ['', 'plain', '{ broken', '[1]', '7', '"text"', 'null', '{"a":1} and more']) {
    t.equal(jsonColumns(line), null, line)
  }
})

t.test('gives levels their usual colours', async t => {
  const color = (level: string): unknown =>
    jsonSpans(jsonColumns(JSON.stringify({ level, msg: 'x' })))?.[0]?.style.foreground
  t.same(['error', 'FATAL', 'warn', 'debug', 'info'].map(color), [1, 1, 3, 8, 4])
})

t.test('treats names of Object.prototype as ordinary fields', async t => {
  t.equal(shown('{"constructor":1,"__proto__":2,"msg":"x"}'), 'x  constructor=1  __proto__=2')
})

t.test('shows only the names of the other fields if folded', async t => {
  const line = '{"level":30,"msg":"done","req":{"url":"/"},"pid":7}'
  t.equal(
    jsonSpans(jsonColumns(line), { isFolded: true })
      ?.map(span => span.text)
      .join(''),
    'INFO   done  {req, pid}'
  )
})
