import t from 'tap'
import { hasErrors, inspectDatabase, judge, type Found, verifyArchives } from '../../../lib/carry/transfer/verify.js'
import type { Level } from '../../../lib/model/transfer.js'
import { openStage } from '../../support/store.js'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
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
  t.strictSame(await inspectDatabase(store), { missingTables: [], projects: [], deploymentCount: 0, orphans: [] })
  const bare = { get: store.get, all: () => [{ name: 'settings' }] }
  t.strictSame((await inspectDatabase(bare)).missingTables, [
    'projects',
    'deployments',
    'categories',
    'tags',
    'placements'
  ])
})

t.test('escapes line breaks of a name in findings', async t => {
  const findings = judge({ ...good, ...database({ projects: [{ ...project, name: 'A\n✓ all is well\u202e' }] }) })
  t.ok(findings.some(({ message }) => message.includes('A\\n✓ all is well\\u202e')))
  for (const { message } of findings) t.notMatch(message, /[\n\u202e]/)
})

t.test('an archive that cannot be read is an error with advice', async t => {
  const { add, pathOf, top } = await sharedArchives(t)
  const { id } = await add({ a: 'one' })
  const directory = join(top, 'deployments')
  t.match(await verifyArchives(directory), [{ check: 'archives', level: 'ok', message: /1 archive$/ }])
  writeFileSync(pathOf(id), 'no zip')
  t.match(await verifyArchives(directory), [
    { check: 'archives', level: 'error', id, message: /damaged/, next: /backup/ }
  ])
})
