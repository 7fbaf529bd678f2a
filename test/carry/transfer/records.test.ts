import t from 'tap'
import { ownSettings, readRecords, tolerant } from '../../../lib/carry/transfer/records.js'
import { flag, line, list, nullable, object, optional, withDefault } from '../../../lib/base/fields.js'

const now = '2026-01-02T03:04:05.678Z'

/** Returns the records of a package with these files. */
function read(files: Record<string, unknown>) {
  const json = async (name: string): Promise<unknown> => files[name]
  const list = async (name: string, _: number, onItem: (item: unknown, index: number) => void): Promise<void> =>
    void ((files[name] as unknown[]) ?? []).forEach(onItem)
  return readRecords({ json, list }, now)
}

const project = { id: 'proj_a', name: 'Site', deployPath: '/srv/site', token: 'a-token-0123456789abcdef' }

t.test('reads an empty package as no records', async t => {
  const { settings, projects, deployments, variables } = await read({})
  t.strictSame([settings, projects, deployments, variables], [{}, [], [], []])
})

t.test('uses defaults for missing fields of a project and ignores unknown fields', async t => {
  const { projects } = await read({ 'projects.json': [{ ...project, unheardOf: 1 }] })
  t.match(projects, [{ ...project, description: '', preDeployScript: '', createdAt: now }])
  t.notOk('unheardOf' in (projects[0] as object))
})

t.test('reads the policy of a project, which older packages do not have', async t => {
  const policies = async (policy?: unknown) => (await read({ 'projects.json': [{ ...project, policy }] })).projects
  t.match(await policies(), [{ policy: {} }])
  t.match(await policies({ drift: 'refuse', onPostFailure: 'keep' }), [{ policy: { drift: 'refuse' } }])
})

t.test('refuses a broken record, naming file, index and field', async t => {
  for (const [file, records, field] of [
    ['projects.json', [project, { ...project, id: 'proj_b', deployPath: 7 }], 'projects.json[1].deployPath'],
    ['projects.json', [{ ...project, id: '../up' }], 'projects.json[0].id'],
    ['projects.json', [{ ...project, name: 7 }], 'projects.json[0].name'],
    ['projects.json', [{ ...project, policy: { drift: 7 } }], 'projects.json[0].policy.drift'],
    ['categories.json', ['no record'], 'categories.json[0]']
  ] as const) {
    const failure = await read({ [file]: records }).catch((error: unknown) => error)
    t.match(failure, { name: 'Refusal', field })
  }
})

t.test('keeps the values of a package within its rules', async t => {
  const at = '2025-01-01T00:00:00Z'
  const deployment = { id: 'dep_a', projectId: 'proj_a', status: 'success', startTime: at }
  const step = { name: 'extract', status: 'success', startedAt: at }
  const { projects, logSources, variables, deployments } = await read({
    'projects.json': [{ ...project, name: 'a\nb', createdAt: at, env: '', pm2AppName: '', tagIds: ['x', 'x'] }],
    'log-sources.json': [{ id: 'log_a', projectId: 'proj_a', filePath: '/var/log/a.log' }],
    'variables.json': [{ projectId: 'proj_a', name: 'KEY', secret: true, value: 7 }],
    'deployments.json': [{ ...deployment, steps: [step, { ...step, exitCode: null }, { ...step, exitCode: 3 }] }]
  })
  t.match(projects, [
    { name: 'a\\nb', createdAt: at, updatedAt: at, env: 'production', pm2AppName: null, tagIds: ['x'] }
  ])
  t.match(logSources, [{ label: '/var/log/a.log', kind: 'plain', sortOrder: 0, createdAt: now }])
  t.strictSame(variables, [{ projectId: 'proj_a', name: 'KEY', secret: true, value: null, updatedAt: now }])
  t.strictSame(
    deployments[0]?.row.steps.map(one => ('exitCode' in one ? one.exitCode : 'absent')),
    ['absent', null, 3]
  )
})

t.test('refuses a duplicate id', async t => {
  await t.rejects(read({ 'projects.json': [project, project] }), { name: 'Refusal', message: /proj_a/ })
})

const readRenamed = tolerant(
  object({
    deployPath: line(),
    allowClientScripts: nullable(flag),
    pinned: withDefault(flag, false),
    tagIds: optional(list(line(), { max: 9 }))
  })
)

t.test('reads the names and values of other programs', async t => {
  const known = { deployPath: '/a', allowClientScripts: false, pinned: true, tagIds: ['b'] }
  t.same(readRenamed({ deploy_path: '/a', allow_cli_hooks: 0, pinned: 1, tag_ids: '["b"]' }, 'x'), known)
  t.same(readRenamed({ deployPath: '/a', allowCliHooks: false, pinned: 1, tagIds: ['b'] }, 'x'), known)
  t.same(
    readRenamed(
      {
        deploy_path: '/b',
        deployPath: '/a',
        allow_cli_hooks: 1,
        allowClientScripts: false,
        pinned: true,
        tagIds: ['b']
      },
      'x'
    ),
    known
  )
})

t.test('the readers still refuse what cannot be meant', async t => {
  for (const bad of [
    { deploy_path: '/a', pinned: 2 },
    { deploy_path: 7 },
    { deploy_path: '/a', tag_ids: '[' },
    { deploy_path: '/a', tag_ids: '{"length": 9}' },
    { deploy_path: 'a\nb' },
    ['deploy_path'],
    null
  ]) {
    t.throws(() => readRenamed(bad, 'x'), { name: 'Refusal' })
  }
  const given = JSON.parse('{"deploy_path": "/a", "__proto__": {"pinned": true}, "constructor": 1}')
  t.same(readRenamed(given, 'x'), { deployPath: '/a', allowClientScripts: null, pinned: false, tagIds: undefined })
})

t.test('reads settings as a list of keys and values', async t => {
  t.same(
    ownSettings([{ key: 'script_timeout', value: '60' }, { key: 'artifact_keep_n', value: 5 }, null, { value: 1 }]),
    {
      script_timeout: '60',
      keep_archives: 5
    }
  )
  t.same(ownSettings({ artifact_keep_n: '5', keep_archives: '7' }), { keep_archives: '7' })
  t.equal(ownSettings('x'), 'x')
})
