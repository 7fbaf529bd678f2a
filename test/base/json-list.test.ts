import t from 'tap'
import { createJsonListReader, type JsonListLimits } from '../../lib/base/json-list.js'
import { createRandom } from '../support/random.js'

const wide: JsonListLimits = { items: 1000, itemBytes: 10_000, itemValues: 1000 }

/** Returns the items of a text that arrives in pieces of this size, or the message of the error. */
function read(text: string | Uint8Array, pieceBytes = Infinity, limits: Partial<JsonListLimits> = {}): unknown {
  const items: unknown[] = []
  const reader = createJsonListReader(item => void items.push(item), { ...wide, ...limits })
  const bytes = Buffer.from(text)
  try {
    for (let at = 0; at < bytes.length; at += pieceBytes) reader.push(bytes.subarray(at, at + pieceBytes))
    reader.end()
    return items
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    return 'refused'
  }
}

t.test('reads the items of a list, wherever it is cut', async t => {
  const lists: string[] = [
    '[]',
    ' [ ] \n',
    '[1]',
    '\ufeff[1, 2 ,3]\r\n',
    '[[],{},"a,]b"]',
    '["\\\\", "\\"],", "é\u{1f600}"]',
    '[{"a":[1,{"b":"]"}]},null]'
  ]
  for (const text of lists) {
    for (const pieceBytes of [1, 2, 3, 7, Infinity]) {
      t.same(
        read(text, pieceBytes),
        JSON.parse(text.replace('\ufeff', '')),
        `${JSON.stringify(text)} in pieces of ${pieceBytes}`
      )
    }
  }
})

t.test('refuses other text, wherever it is cut', async t => {
  const broken = [
    '',
    ' ',
    '{}',
    '1',
    '"[]"',
    '[',
    '[1',
    '[1,',
    '[1,]',
    '[,1]',
    '[1 2]',
    '[1]]',
    '[1],',
    '[1}',
    '[{]',
    '["a]',
    '[{"a":1]',
    '[01]',
    '\ufeff'
  ]
  for (const text of broken)
    for (const pieceBytes of [1, Infinity]) t.equal(read(text, pieceBytes), 'refused', JSON.stringify(text))
})

t.test('reads random texts like JSON.parse', async t => {
  const random = createRandom(1)
  const words = ['[', ']', '{', '}', ',', ':', '"', '\\', '"a"', '1', 'null', ' ', '\\u0041', 'é']
  let lists = 0
  for (let round = 0; round < 20_000; round++) {
    const text = `[${random.some(8, () => random.oneOf(words)).join('')}]`
    let expected: unknown = 'refused'
    try {
      expected = JSON.parse(text)
      lists++
    } catch {
      // If JSON.parse refuses a text, the reader must, too.
    }
    const found = read(text, 1 + random.below(4))
    if (JSON.stringify(found) !== JSON.stringify(expected)) t.same(found, expected, text)
  }
  t.ok(lists > 500, `${lists} of them were lists`)
})

t.test('refuses items that are too large before parsing them', async t => {
  t.equal(read('[1,2,3]', Infinity, { items: 2 }), 'refused')
  t.same(read('[1,2]', Infinity, { items: 2 }), [1, 2])
  t.equal(read(`["${'a'.repeat(100)}"]`, 7, { itemBytes: 50 }), 'refused')
  t.equal(read(`[1,${' '.repeat(100)}2]`, 7, { itemBytes: 50 }), 'refused')
  t.equal(read(`[${'['.repeat(100)}`, 7, { itemValues: 50 }), 'refused', 'without an end')
  t.same(
    read('[[1,2],[3,4]]', 7, { itemValues: 3 }),
    [
      [1, 2],
      [3, 4]
    ],
    'each item by itself'
  )
  t.equal(read('[[1,2,3,4]]', 7, { itemValues: 3 }), 'refused')
})

t.test('throws errors of the receiver unchanged', async t => {
  const reader = createJsonListReader(() => {
    throw new Error('no')
  }, wide)
  t.throws(() => reader.push(Buffer.from('[1]')), { message: 'no' })
})
