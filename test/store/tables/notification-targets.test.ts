import t from 'tap'
import type { NotificationTarget } from '../../../lib/model/notification-target.js'
import {
  deleteNotificationTarget,
  findNotificationTarget,
  insertNotificationTarget,
  listNotificationTargets,
  updateNotificationTarget
} from '../../../lib/store/tables/notification-targets.js'
import { aStore } from '../stage.js'

const aTarget = (fields: Partial<NotificationTarget> = {}): NotificationTarget => ({
  id: 'hook_a',
  name: 'team',
  kind: 'slack',
  url: 'https://hooks.example/secret',
  secret: 'whsec_TWFu',
  events: ['deploy_failure'],
  projectIds: ['proj_a', 'proj_b'],
  enabled: false,
  createdAt: '2026-01-02T03:04:05.678Z',
  updatedAt: '2026-01-02T03:04:05.678Z',
  ...fields
})

t.test('reads a target as it was written, including lists and the enabled flag', async t => {
  const store = await aStore(t)
  await store.write(tx => insertNotificationTarget(tx, aTarget()))
  t.strictSame(findNotificationTarget(store, 'hook_a'), aTarget())
  const patch = { enabled: true, events: [], projectIds: [] }
  t.equal(await store.write(tx => updateNotificationTarget(tx, 'hook_a', patch)), true)
  t.strictSame(findNotificationTarget(store, 'hook_a'), aTarget(patch))
})

t.test('lists targets in the order of adding, and does not change an unknown one', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    for (const id of ['hook_c', 'hook_a', 'hook_b']) insertNotificationTarget(tx, aTarget({ id, name: id }))
  })
  t.same(
    listNotificationTargets(store).map(({ id }) => id),
    ['hook_c', 'hook_a', 'hook_b']
  )
  t.equal(await store.write(tx => updateNotificationTarget(tx, 'hook_x', { name: 'new' })), false)
  t.equal(await store.write(tx => deleteNotificationTarget(tx, 'hook_x')), false)
  t.equal(await store.write(tx => deleteNotificationTarget(tx, 'hook_a')), true)
  t.equal(findNotificationTarget(store, 'hook_a'), undefined)
})
