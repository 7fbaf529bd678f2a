import t from 'tap'
import { randomIds } from '../../../lib/base/digests.js'
import type { AuditEvent } from '../../../lib/model/audit.js'
import { eventKeys, maxNotificationTargets } from '../../../lib/model/setting.js'
import { createTargets } from '../../../lib/operate/notify/targets.js'
import { openStore } from '../../../lib/core/store/durable-store.js'
import { setClock } from '../../support/clock.js'

const admin = { name: 'admin', ip: '192.0.2.1' }
const slackUrl = 'https://hooks.slack.com/services/T0/B0/a-secret-path'

async function createStage(
  t: { testdir(): string; teardown(work: () => unknown): void },
  settings: Record<string, string> = {}
) {
  const store = await openStore({ directory: t.testdir() })
  t.teardown(() => store.close())
  const audits: AuditEvent[] = []
  const targets = createTargets({
    store,
    clock: setClock(),
    ids: randomIds,
    audit: { within: (_, event) => void audits.push(event) },
    settings: { text: key => settings[key] ?? '', list: () => ['deploy_failure'] },
    isProject: (_, id) => id.startsWith('proj_here')
  })
  return { targets, audits }
}

t.test('adds, changes and removes a target without revealing its secret or path', async t => {
  const { targets, audits } = await createStage(t)
  const created = await targets.create({ name: 'Team', url: slackUrl }, admin)
  t.match(created, {
    kind: 'slack',
    address: 'https://hooks.slack.com/…',
    hasSecret: false,
    enabled: true,
    events: [...eventKeys],
    projectIds: []
  })
  t.equal(targets.find(created.id).url, slackUrl)

  const changed = await targets.update(
    created.id,
    { name: 'Us', events: ['deploy_failure'], projectIds: ['proj_here'] },
    admin
  )
  t.match(changed, { name: 'Us', events: ['deploy_failure'], address: 'https://hooks.slack.com/…' })
  t.equal(targets.find(created.id).url, slackUrl, 'omitted fields stay')
  t.match(
    await targets.update(created.id, { kind: 'generic', url: 'https://ci.example/hook', secret: 'a-secret' }, admin),
    { kind: 'generic', hasSecret: true }
  )
  t.match(await targets.update(created.id, { name: 'Us' }, admin), { hasSecret: true })
  t.match(await targets.update(created.id, { secret: '' }, admin), { hasSecret: false })
  await targets.update(created.id, { secret: 'a-secret' }, admin)
  t.match(
    await targets.update(created.id, { kind: 'wecom' }, admin),
    { hasSecret: false },
    'a kind without signatures keeps no secret'
  )

  await targets.remove(created.id, admin)
  t.same(
    targets.list().map(({ id }) => id),
    ['settings']
  )
  t.same(
    audits.map(({ action }) => action.split('.')[1]),
    ['create', 'update', 'update', 'update', 'update', 'update', 'delete'],
    'no entry for what changed nothing'
  )
  t.notMatch(JSON.stringify(audits), /a-secret|services/)
})

const refusals: Array<[what: string, fields: object, field: string]> = [
  ['another scheme', { url: 'ftp://x' }, 'url'],
  ['no address', { url: 'hooks' }, 'url'],
  ['invalid base64', { kind: 'generic', url: 'https://a.example', secret: 'whsec_?' }, 'secret'],
  ['a secret for a kind without signatures', { secret: 'x' }, 'secret'],
  ['an unknown project', { projectIds: ['proj_gone'] }, 'projectIds']
]

for (const [what, fields, field] of refusals) {
  t.test(`refuses ${what}`, async t => {
    const { targets, audits } = await createStage(t)
    await t.rejects(targets.create({ name: 'a', url: slackUrl, ...fields }, admin), { code: 'invalid_field', field })
    const { id } = await targets.create({ name: 'a', url: slackUrl }, admin)
    await t.rejects(targets.update(id, fields, admin), { code: 'invalid_field', field })
    t.equal(targets.find(id).url, slackUrl)
    t.equal(audits.length, 1)
  })
}

t.test('selects the targets of an event', async t => {
  const { targets } = await createStage(t, { webhook_url: 'https://old.example/hook', webhook_secret: 'old' })
  const names = (event: 'deploy_success' | 'deploy_failure', project: string) =>
    targets.wanting(event, [project]).map(({ name }) => name)
  await targets.create({ name: 'all', url: slackUrl }, admin)
  await targets.create({ name: 'failures', url: slackUrl, events: ['deploy_failure'] }, admin)
  await targets.create({ name: 'one', url: slackUrl, projectIds: ['proj_here1'] }, admin)
  const off = await targets.create({ name: 'off', url: slackUrl, enabled: false }, admin)
  t.same(names('deploy_success', 'proj_here1'), ['all', 'one'])
  t.same(names('deploy_failure', 'proj_here2'), ['webhook_url', 'all', 'failures'])
  const ofToken = (projects: string[] | null) => targets.wanting('token_expiring', projects).map(({ name }) => name)
  t.same(ofToken(['proj_here2', 'proj_here1']), ['all', 'one'])
  t.same(ofToken(null), ['all'], 'a target of one project hears nothing about the whole server')
  t.equal(targets.find(off.id).name, 'off', 'a disabled target can be tested')
  t.match(targets.list()[0], {
    id: 'settings',
    isFromSettings: true,
    address: 'https://old.example/…',
    hasSecret: true,
    events: ['deploy_failure']
  })
  t.match(targets.find('settings'), { url: 'https://old.example/hook', secret: 'old' })
})

t.test('refuses changes of the settings target, and too many targets', async t => {
  const { targets } = await createStage(t)
  await t.rejects(targets.update('settings', { name: 'x' }, admin), { code: 'settings_target' })
  await t.rejects(targets.remove('settings', admin), { code: 'settings_target' })
  await t.rejects(targets.update('ntf_unknown', {}, admin), { code: 'not_found' })
  await t.rejects(targets.remove('ntf_unknown', admin), { code: 'not_found' })
  t.throws(() => targets.find('settings'), { code: 'no_webhook' })
  t.match(targets.list(), [{ address: '', enabled: false }])
  for (let i = 0; i < maxNotificationTargets; i++) await targets.create({ name: `${i}`, url: slackUrl }, admin)
  await t.rejects(targets.create({ name: 'more', url: slackUrl }, admin), { code: 'too_many_targets' })
})
