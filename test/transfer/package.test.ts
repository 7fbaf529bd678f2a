import t from 'tap'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  artifactPath,
  deployedPath,
  openPackage,
  outputPath,
  type Package,
  packageFiles,
  packageRoot,
  scriptedPath
} from '../../lib/transfer/package.js'
import { readRecords } from '../../lib/transfer/records.js'
import { refusalOf } from '../support/extraction.js'
import { makeZip } from '../support/make-zip.js'

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
