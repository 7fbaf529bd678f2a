import t from 'tap'
import {
  fileOf,
  shownProject,
  usualProject,
  withReferences,
  type ServerState,
  checkStill,
  idIn,
  idsOf,
  keyOf,
  named
} from '../../../lib/cli/server-file/state.js'

t.test('a file has no defaults and no secrets', async t => {
  const fields = { ...usualProject, name: 'shop', deployPath: '/srv/shop', policy: {} }
  const variable = { name: 'A', value: null, secret: true, hasValue: true, updatedAt: '' }
  const file = fileOf({
    settings: { keep_archives: '10', audit_days: '9', metrics_token: 'secret', webhook_url: 'https://x.example/path' },
    settingsSeen: '',
    categories: [{ id: '', seen: '', fields: { name: 'web', color: 'blue', sortOrder: 0 } }],
    tags: [],
    projects: [
      {
        id: 'proj_1',
        seen: '',
        hasDeployments: false,
        fields: { ...fields, logSources: undefined, variables: undefined, placements: undefined, env: 'test' },
        sources: [
          { id: 's', seen: '', sortOrder: 3, fields: { filePath: '/var/log/a.log', label: 'a.log', kind: 'json' } }
        ],
        placements: [
          { node: 'web-1', deployPath: '/srv/shop' },
          { node: 'web-2', deployPath: '/srv/other' }
        ],
        variables: [variable, { ...variable, name: 'B', value: 'b', secret: false }]
      }
    ],
    nodes: ['web-1', 'web-2'],
    notificationTargets: []
  })
  t.same(JSON.parse(JSON.stringify(file)), {
    format: 'svc-server-1',
    settings: { webhook_url: 'https://x.example/…', metrics_token: '***', audit_days: '9' },
    categories: [{ name: 'web', color: 'blue' }],
    tags: [],
    projects: [
      {
        name: 'shop',
        deployPath: '/srv/shop',
        env: 'test',
        logSources: [{ filePath: '/var/log/a.log', kind: 'json' }],
        variables: { A: { secret: '***' }, B: 'b' },
        placements: [{ node: 'web-1' }, { node: 'web-2', deployPath: '/srv/other' }]
      }
    ],
    notificationTargets: []
  })
})

t.test('a policy refers to projects and log sources in another way', async t => {
  const gate = { after: [{ log: 'one', none: 'E', for: 1 }, { tcp: 'x:1' }] } as never
  const policy = { drift: 'off', gate, promoteFrom: { projectId: 'two', soakMinutes: 0 } } as const
  const other = withReferences(policy, { project: word => `p ${word}`, source: word => `s ${word}` })
  t.match(other, {
    drift: 'off',
    gate: { after: [{ log: 's one' }, { tcp: 'x:1' }] },
    promoteFrom: { projectId: 'p two' }
  })
  const none = { project: String, source: String }
  t.same(withReferences({ drift: 'off' }, none), { drift: 'off' })
})

t.test('a project is shown with its whole policy', async t => {
  t.match(shownProject({ policy: { drift: 'off' }, tagIds: ['b', 'a'] }), {
    policy: { drift: 'off', prune: 'off' },
    tagIds: ['a', 'b']
  })
})

t.test('records are found by name, whatever its case', async t => {
  const record = (id: string, name: string) => ({ id, seen: '', fields: { name, filePath: '/x' } })
  const project = { ...record('p1', 'Shop'), sources: [record('s1', '')] }
  const state = { categories: [record('c1', 'web')], tags: [], projects: [project] } as unknown as ServerState
  const ids = idsOf(state)
  t.equal(idIn({ ids }, 'project', 'shop'), 'p1')
  t.equal(idIn({ ids }, 'category', 'WEB'), 'c1')
  t.equal(idIn({ ids }, 'tag', 'web'), 'web', 'the word itself')
  t.equal(ids.get(keyOf('source', 'shop', '/x')), 's1')
  t.equal(named(state.projects, 'SHOP'), project)
  t.equal(named(state.projects, 'other'), undefined)
  const two = [record('a', 'x'), record('b', 'X')]
  t.throws(() => named(two, 'x'), { code: 'name_taken', message: /a, b/ })
})

t.test('a record that is not as it was is refused', async t => {
  t.doesNotThrow(() => checkStill('It', { a: 1 }, { a: 1 }))
  t.throws(() => checkStill('It', { a: 1 }, undefined), { kind: 'precondition', code: 'changed_since' })
})
