import t from 'tap'
import { hasErrors, inspectDatabase, judge, type Found, verifyArchives } from '../../../lib/carry/transfer/verify.js'
import type { Level } from '../../../lib/model/transfer.js'
import { openStage } from '../../support/store.js'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { besideArchive } from '../../../lib/core/archive/pack-set.js'
import { openArchive } from '../../../lib/core/archive/read.js'
import { Packs } from '../../../lib/deploy/packs.js'
import { sharedArchives } from '../../support/shared-archive.js'

const project = {
  id: 'proj_a',
  name: 'A',
  deployPath: '/srv/a',
  token: 'secret-token',
  status: 'success' as const,
  nodes: 0
}
const good: Found = {
  database: { missingTables: [], projects: [project], deploymentCount: 2, orphans: [] },
  directory: '/home/.svc',
  globalConfig: { serverUrl: 'http://127.0.0.1:5431', projectToken: { proj_a: 'secret-token' } },
  places: new Map([['/srv/a', 'directory']]),
  server: { url: 'http://127.0.0.1:5431', status: 200 }
}
const database = (change: object): Partial<Found> => ({
  database: { ...(good.database as object), ...change } as Found['database']
})

const cases: Array<[what: string, change: Partial<Found>, check: string, level: Level]> = [
  ['no database', { database: null }, 'database', 'error'],
  ['no projects table', database({ missingTables: ['projects'], projects: [] }), 'database', 'error'],
  [
    'a deployment without a project',
    database({ orphans: [{ id: 'dep_a', projectId: 'proj_gone' }] }),
    'deployments',
    'error'
  ],
  ['a target that is missing', { places: new Map() }, 'deployPath', 'error'],
  [
    'a target that is missing before the first deployment',
    { places: new Map(), ...database({ projects: [{ ...project, status: 'idle' }] }) },
    'deployPath',
    'warning'
  ],
  ['a target that is a file', { places: new Map([['/srv/a', 'other']]) }, 'deployPath', 'error'],
  ['a target without access', { places: new Map([['/srv/a', 'unreadable']]) }, 'deployPath', 'error'],
  ['no token', { globalConfig: { serverUrl: 'http://x' } }, 'token', 'warning'],
  ['another token', { globalConfig: { serverUrl: 'http://x', projectToken: { proj_a: 'other' } } }, 'token', 'error'],
  ['no serverUrl', { globalConfig: { projectToken: { proj_a: 'secret-token' } } }, 'serverUrl', 'warning'],
  ['a server that answers 502', { server: { url: 'http://x', status: 502 } }, 'server', 'error'],
  [
    'a server that does not answer',
    { server: { url: 'http://x', error: 'The server could not be reached' } },
    'server',
    'error'
  ]
]

t.test('reports each check that succeeds', async t => {
  const findings = judge(good)
  t.strictSame(
    findings.map(({ check, level }) => `${check} ${level}`),
    ['database ok', 'deployments ok', 'deployPath ok', 'token ok', 'serverUrl ok', 'server ok']
  )
  t.equal(hasErrors(findings), false)
  t.equal(judge({ ...good, server: null }).length, 5, 'the server is only checked on request')
})

for (const [what, change, check, level] of cases) {
  t.test(`reports ${what} as ${level}, with advice`, async t => {
    const findings = judge({ ...good, ...change })
    const found = findings.filter(finding => finding.level !== 'ok')
    t.match(found, [{ check, level, next: /\w/ }])
    t.equal(found.length, 1)
    t.equal(hasErrors(findings), level === 'error')
    t.notMatch(JSON.stringify(findings), 'secret-token')
  })
}

t.test('looks for no target of a project that is on nodes', async t => {
  const findings = judge({ ...good, places: new Map(), ...database({ projects: [{ ...project, nodes: 2 }] }) })
  t.match(
    findings.find(({ check }) => check === 'deployPath'),
    { level: 'ok', message: '"A" is deployed on 2 nodes, not here' }
  )
})

t.test('inspects an incomplete database', async t => {
  const { store } = await openStage(t)
  t.strictSame(inspectDatabase(store), { missingTables: [], projects: [], deploymentCount: 0, orphans: [] })
  const bare = { get: store.get, all: () => [{ name: 'settings' }] }
  t.strictSame(inspectDatabase(bare).missingTables, ['projects', 'deployments', 'categories', 'tags', 'placements'])
})

t.test('escapes line breaks of a name in findings', async t => {
  const findings = judge({ ...good, ...database({ projects: [{ ...project, name: 'A\n✓ all is well\u202e' }] }) })
  t.ok(findings.some(({ message }) => message.includes('A\\n✓ all is well\\u202e')))
  for (const { message } of findings) t.notMatch(message, /[\n\u202e]/)
})

const limits = { maxEntries: 100, maxExtractedBytes: 1e6 }

/** Flips a bit of the contents of an entry. */
async function spoil(path: string, name: string): Promise<() => void> {
  const archive = await openArchive(path, limits)
  const entry = archive.entries.find(each => each.path === name)
  archive.close()
  const saved = readFileSync(path)
  const bytes = Buffer.from(saved)
  const at = (entry?.limitOffset ?? 0) - 20
  bytes.writeUInt8((bytes[at] as number) ^ 4, at)
  writeFileSync(path, bytes)
  return () => writeFileSync(path, saved)
}

t.test('a flipped bit is found, and every release that it affects is named', async t => {
  const { top, add, pathOf } = await sharedArchives(t)
  const directory = join(top, 'deployments')
  const text = (word: string): string => Array.from({ length: 300 }, (_, n) => `${word}${n * 7919}`).join(' ')
  const [first, second, third, fourth] = [
    (await add({ a: text('a'), b: text('b') })).id,
    (await add({ a: text('a'), b: text('other') })).id,
    (await add({ a: text('a'), b: text('other'), c: text('c') })).id,
    (await add({ a: text('new'), b: text('other') })).id
  ]
  t.match(await verifyArchives(directory), [{ check: 'archives', level: 'ok', message: /4 archives$/ }])

  const mend = await spoil(pathOf(first), 'a')
  const found = await verifyArchives(directory)
  t.match(found, [{ level: 'error', id: first, message: /"a"/, next: /./ }])
  for (const id of [first, second, third]) t.match(found[0]?.message, id)
  t.notMatch(found[0]?.message, fourth, 'it has other contents')
  mend()

  const mendPack = await spoil(besideArchive(pathOf(second), 'pack'), 'b')
  const [damaged] = await verifyArchives(directory)
  t.match(
    damaged?.message,
    new RegExp(`^"${second}.pack" is damaged: .*Affected releases: ${second}, ${third}, ${fourth}$`)
  )
  mendPack()

  const packs = new Packs(directory)
  await packs.remove(first)
  t.match(await verifyArchives(directory), [{ level: 'ok', message: /3 archives$/ }], 'what is left of it is read')
  rmSync(besideArchive(pathOf(first), 'pack'))
  t.match(
    await verifyArchives(directory),
    [{ id: second, message: /it is missing/ }, { id: third }],
    'and it is missed'
  )
  writeFileSync(besideArchive(pathOf(fourth), 'index'), 'no index')
  t.equal((await verifyArchives(directory)).length, 3)
})

t.test('a directory without archives is intact', async t => {
  t.match(await verifyArchives(join(t.testdir({}), 'none')), [{ level: 'ok', message: /0 archives/ }])
})
