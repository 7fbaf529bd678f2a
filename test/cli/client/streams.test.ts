import t from 'tap'
import { readEvents, readNdjson } from '../../../lib/cli/client/streams.js'

async function* body(text: string, size: number): AsyncGenerator<Buffer> {
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = []
  for await (const item of items) list.push(item)
  return list
}

const streams: Array<[what: string, text: string, expected: object[]]> = [
  ['one event', 'event: log\ndata: a\n\n', [{ event: 'log', data: 'a', id: '' }]],
  ['without a name', 'data: a\n\n', [{ event: 'message', data: 'a', id: '' }]],
  ['CR LF', 'event: log\r\ndata: ü\r\n\r\n', [{ event: 'log', data: 'ü', id: '' }]],
  ['no blank after the colon', 'data:a\n\n', [{ event: 'message', data: 'a', id: '' }]],
  ['only the first blank is dropped', 'data:  a\n\n', [{ event: 'message', data: ' a', id: '' }]],
  ['several lines of data', 'data: a\ndata: b\n\n', [{ event: 'message', data: 'a\nb', id: '' }]],
  ['a field without colon', 'data\n\n', [{ event: 'message', data: '', id: '' }]],
  [
    'comments and unknown fields',
    ':keep-alive\n\nretry: 5\nfoo: x\ndata: a\n\n',
    [{ event: 'message', data: 'a', id: '' }]
  ],
  [
    'the id lasts',
    'id: 7\ndata: a\n\ndata: b\n\n',
    [
      { event: 'message', data: 'a', id: '7' },
      { event: 'message', data: 'b', id: '7' }
    ]
  ],
  ['an event without data is none', 'event: log\n\ndata: a\n\n', [{ event: 'message', data: 'a', id: '' }]],
  ['what is cut off is dropped', 'data: a\n\ndata: b\n', [{ event: 'message', data: 'a', id: '' }]]
]

for (const [what, text, expected] of streams) {
  t.test(`readEvents: ${what}, whole and one byte at a time`, async t => {
    t.strictSame(await all(readEvents(body(text, 1 << 20))), expected)
    t.strictSame(await all(readEvents(body(text, 1))), expected)
  })
}

t.test('readNdjson returns an object for each line, including a last line without a newline', async t => {
  t.strictSame(await all(readNdjson(body('{"a":1}\n\n{"a":"ü"}', 1))), [{ a: 1 }, { a: 'ü' }])
})

t.test('readNdjson accepts the longest escaped line that the server sends', async t => {
  const data = '\u0001'.repeat(64 * 1024)
  t.strictSame(await all(readNdjson(body(`${JSON.stringify({ data })}\n`, 50_000))), [{ data }])
})

t.test('readNdjson refuses lines that are not objects', async t => {
  for (const text of ['<html>\n', '1\n', 'null\n']) {
    await t.rejects(all(readNdjson(body(text, 100))), { code: 'bad_stream' })
  }
})

t.test('readNdjson throws the error of the body unchanged', async t => {
  const error = new Error('broken')
  async function* broken(): AsyncGenerator<Buffer> {
    yield Buffer.from('{"a":1}\n{')
    throw error
  }
  const values: object[] = []
  await t.rejects(async () => {
    for await (const value of readNdjson(broken())) values.push(value)
  }, error)
  t.strictSame(values, [{ a: 1 }])
})
