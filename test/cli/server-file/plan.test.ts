import t from 'tap'
import { readServerFile } from '../../../lib/cli/server-file/format.js'
import { planOf } from '../../../lib/cli/server-file/plan.js'
import type { ServerState } from '../../../lib/cli/server-file/state.js'

const target = {
  name: 'team',
  kind: 'slack',
  url: 'https://x.example/…',
  secret: '***',
  events: [],
  projectIds: [],
  enabled: true
}
const state = {
  settings: { keep_archives: '10', webhook_url: '' },
  settingsSeen: undefined,
  categories: [],
  tags: [{ id: 'tag_1', seen: '"1"', fields: { name: 'old', color: 'blue', sortOrder: 0 } }],
  projects: [],
  nodes: [],
  notificationTargets: [{ id: 'ntf_1', seen: '"1"', hasSecret: true, fields: target }]
} as unknown as ServerState

function plan(parts: object, options: { prune?: boolean; secrets?: boolean } = {}) {
  const read = readServerFile(JSON.stringify({ format: 'svc-server-1', ...parts }), { name: 'file', env: {} })
  const { tasks, ...rest } = planOf({ ...read, state, prune: false, secrets: false, ...options })
  return { ...rest, steps: tasks.map(({ action, kind, name, fields }) => ({ action, kind, name, fields })) }
}

t.test('only what differs is changed', async t => {
  t.same(plan({ settings: { keep_archives: '10' }, tags: [{ name: 'OLD', color: 'blue' }] }).steps, [
    { action: 'change', kind: 'tag', name: 'OLD', fields: [{ field: 'name', from: 'old', to: 'OLD' }] }
  ])
  t.same(plan({}, { prune: true }), { steps: [], leftAlone: 0, notCompared: [] }, 'absent parts are not pruned')
  t.match(plan({ tags: [] }, { prune: true }).steps, [{ action: 'delete', kind: 'tag', name: 'old' }])
})

t.test('a secret that the server hides is not compared', async t => {
  const given = { name: 'team', url: 'https://x.example/secret', secret: 'a-secret-0123456789' }
  const places = ['notificationTargets[0].url', 'notificationTargets[0].secret']
  t.match(plan({ notificationTargets: [given] }), { steps: [], leftAlone: 1, notCompared: places })
  const fields = [
    { field: 'url', to: 'changed' },
    { field: 'secret', to: 'changed' }
  ]
  t.match(plan({ notificationTargets: [given] }, { secrets: true }), {
    steps: [{ action: 'change', fields }],
    notCompared: []
  })
  const elsewhere = { ...given, url: 'https://y.example/' }
  t.match(plan({ notificationTargets: [elsewhere] }).steps, [
    { fields: [{ from: 'https://x.example/…', to: 'https://y.example/…' }] }
  ])
  const settings = { metrics_token: 'a-token-0123456789' }
  t.match(plan({ settings }), { steps: [], notCompared: ['settings.metrics_token'] })
  t.match(plan({ settings }, { secrets: true }).steps, [{ fields: [{ field: 'metrics_token', to: '***' }] }])
  t.throws(() => plan({ settings: { webhook_url: 'https://x.example/…' } }), {
    message: /"settings.webhook_url" is masked/
  })
})
