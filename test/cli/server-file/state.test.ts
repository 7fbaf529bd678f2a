import t from 'tap'
import { fileOf, shownProject, usualProject, withReferences } from '../../../lib/cli/server-file/state.js'

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
