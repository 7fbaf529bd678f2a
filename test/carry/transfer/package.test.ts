import t from 'tap'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  artifactPath,
  createJsonListReader,
  deployedPath,
  type JsonListLimits,
  openPackage,
  outputPath,
  type Package,
  packageFiles,
  packageRoot,
  scriptedPath
} from '../../../lib/carry/transfer/package.js'
import { readRecords } from '../../../lib/carry/transfer/records.js'
import { refusalOf } from '../../support/extraction.js'
import { makeZip } from '../../support/make-zip.js'
import { createRandom } from '../../support/random.js'

t.test('uses a different path below the root for each file', async t => {
  const paths = [
    ...Object.values(packageFiles),
    ...[artifactPath, outputPath, deployedPath, scriptedPath].map(path => path('one'))
  ]
  t.equal(new Set(paths).size, paths.length)
  for (const path of paths) t.notMatch(path, /^\/|\.\.|\\/, path)
  t.match(packageRoot, /^[^/]+\/$/)
  t.equal(artifactPath('proj_a'), 'artifacts/proj_a.zip')
})

const directory = t.testdir()
const now = '2026-01-31T12:00:00.000Z'
let count = 0

/** Opens a package with these texts; it is closed after `use`. */
async function withPackage<T>(files: Record<string, string>, use: (given: Package) => Promise<T>): Promise<T> {
  const path = join(directory, `${count++}.zip`)
  const entries = Object.entries({ 'manifest.json': '{"schemaVersion":1}', ...files })
  writeFileSync(path, makeZip(entries.map(([name, data]) => ({ name: `svc-export/${name}`, data, method: 8 }))))
  const given = await openPackage(path)
  try {
    return await use(given)
  } finally {
    given.close()
  }
}

t.test('reads records one by one and stops at the first broken one', async t => {
  const projects = [{ id: 'a', name: 'A', deployPath: '/srv/a' }, { id: 'b', name: 'B' }, 'no record at all']
  const refusal = await refusalOf(
    withPackage({ 'projects.json': JSON.stringify(projects) }, given => readRecords(given, now))
  )
  t.match(refusal, { code: 'invalid_field', field: 'projects.json[1].deployPath' })
})

t.test('handles other requests while a long list is read', async t => {
  const item = `{"id":"d","note":"${'x'.repeat(1000)}"}`
  let turns = 0
  const turn = (): void => {
    turns++
    next = setImmediate(turn)
  }
  let next = setImmediate(turn)
  let inOneTurn = 0
  let most = 0
  let last = 0
  const items = await withPackage({ 'deployments.json': `[${Array(20_000).fill(item).join()}]` }, async given => {
    let items = 0
    await given.list('deployments.json', 20_000, () => {
      items++
      inOneTurn = turns === last ? inOneTurn + 1 : 1
      last = turns
      most = Math.max(most, inOneTurn)
    })
    return items
  })
  clearImmediate(next)
  t.equal(items, 20_000)
  t.ok(most <= 2000, `${most} items without a pause`)
})

t.test('refuses JSON that would block the process before it is parsed', async t => {
  const hostile: Record<string, [name: string, text: string, message: RegExp]> = {
    'empty lists in a manifest': [
      'manifest.json',
      `{"schemaVersion":1,"a":[${Array(300_000).fill('[]').join()}]}`,
      /more than 250000 values/
    ],
    'a long manifest': [
      'manifest.json',
      `{"schemaVersion":1,"a":"${'x'.repeat(17 * 1024 * 1024)}"}`,
      /more than 16777216 bytes/
    ],
    'a long record': [
      'deployments.json',
      `[{"id":"${'x'.repeat(9 * 1024 * 1024)}"}]`,
      /item 0 has more than 8388608 bytes/
    ],
    'a record of many values': [
      'deployments.json',
      `[{"id":[${Array(60_000).fill('[]').join()}]}]`,
      /more than 50000 values/
    ],
    'a record without an end': ['deployments.json', '['.repeat(1_000_000), /more than 50000 values/]
  }
  for (const [what, [name, text, message]] of Object.entries(hostile)) {
    const refusal = await refusalOf(withPackage({ [name]: text }, given => readRecords(given, now)))
    t.match(refusal, { code: 'broken_package', field: name, message }, what)
  }
})

t.test('refuses too many records', async t => {
  const labels = Array.from({ length: 10_001 }, (_, index) => ({ id: `l${index}`, name: `${index}` }))
  const refusal = await refusalOf(
    withPackage({ 'tags.json': JSON.stringify(labels) }, given => readRecords(given, now))
  )
  t.match(refusal, { code: 'broken_package', field: 'tags.json', message: /more than 10000 items/ })
})

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
