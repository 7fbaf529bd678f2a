import t from 'tap'
import type { MachineMinute } from '../../../../lib/model/machine.js'
import type { NotificationTarget, TelemetryReport, WaitingMessage } from '../../../../lib/model/setting.js'
import {
  countWaitingMessages,
  deleteDelivered,
  deleteNotificationTarget,
  deleteWaitingMessage,
  dropAbove,
  dropBefore,
  findFailure,
  findNotificationTarget,
  firstWaitingMessage,
  insertMachineMinutes,
  insertNotificationTarget,
  insertReport,
  insertWaitingMessage,
  forgetFailure,
  listNotificationTargets,
  noteFailure,
  queueOf,
  readMachineHistory,
  readReports,
  readSettings,
  refusingTargets,
  targetsWithMessages,
  trimMachineHistory,
  trimReports,
  updateNotificationTarget,
  updateWaitingMessage,
  writeSetting
} from '../../../../lib/core/store/tables/server.js'
import { aTarget as aTargetForWaitingMessages } from '../../../support/notification-target.js'
import { openStage } from '../../../support/store.js'
import { aStore } from '../stage.js'

t.test('omits settings that were never written, and replaces a value on a second write', async t => {
  const store = await aStore(t)
  t.same(readSettings(store), {})
  await store.write(tx => {
    writeSetting(tx, 'webhook_url', 'a')
    writeSetting(tx, '__proto__', 'b')
    writeSetting(tx, 'webhook_url', '')
  })
  const settings = readSettings(store)
  t.equal(settings['webhook_url'], '')
  t.same(Object.keys(settings).sort(), ['__proto__', 'webhook_url'])
})

const report: TelemetryReport = {
  event: 'svc.push.start',
  ts: '2030-01-01T00:00:00Z',
  svcVersion: '1',
  instanceId: 'a',
  os: 'linux',
  arch: 'x64'
}

t.test('keeps one row per instance and day, and trims the oldest', async t => {
  const { store } = await openStage(t)
  await store.write(tx => {
    for (const date of ['2030-01-01', '2030-01-02', '2030-01-02', '2030-01-03']) insertReport(tx, date, report)
  })
  const dates = () => readReports(store, '').daily.map(({ date, pushes }) => [date, pushes])
  t.same(dates(), [
    ['2030-01-01', 1],
    ['2030-01-02', 2],
    ['2030-01-03', 1]
  ])
  t.match(readReports(store, '2030-01-02'), { totals: { instances: 1, startups: 0, pushes: 3 } })
  t.equal(await store.write(tx => trimReports(tx, { before: '2030-01-02', keep: 10 })), 1)
  t.same(dates(), [
    ['2030-01-02', 2],
    ['2030-01-03', 1]
  ])
  t.equal(await store.write(tx => trimReports(tx, { before: '2030-01-02', keep: 1 })), 1)
  t.same(dates(), [['2030-01-03', 1]])
})

const instant = (minute: number): string => `2026-01-02T03:0${minute}:00.000Z`
const aMinute = (minute: number, cpu = minute): MachineMinute =>
  ({ at: instant(minute), cpu }) as unknown as MachineMinute
const all = { from: instant(0), to: instant(9) }

t.test(
  'reads minutes between two instants, oldest first; a second one of the same instant replaces the first',
  async t => {
    const store = await aStore(t)
    await store.write(tx => insertMachineMinutes(tx, [aMinute(3), aMinute(1), aMinute(2)]))
    await store.write(tx => insertMachineMinutes(tx, [aMinute(2, 99)]))
    t.strictSame(readMachineHistory(store, all), [aMinute(1), aMinute(2, 99), aMinute(3)])
    t.strictSame(readMachineHistory(store, { from: instant(2), to: instant(3) }), [aMinute(2, 99), aMinute(3)])
  }
)

t.test('keeps the minutes between two instants when trimming, and none of the future', async t => {
  const store = await aStore(t)
  await store.write(tx =>
    insertMachineMinutes(
      tx,
      [1, 2, 3, 4].map(minute => aMinute(minute))
    )
  )
  await store.write(tx => trimMachineHistory(tx, { from: instant(2), to: instant(3) }))
  t.strictSame(readMachineHistory(store, all), [aMinute(2), aMinute(3)])
})

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

const aMessage = (id: string, fields: Partial<WaitingMessage> = {}): WaitingMessage => ({
  id,
  targetId: 'ntf_a',
  notification: { event: 'deploy_failure', text: 'x'.repeat(100) },
  createdAt: `2026-01-02T03:04:0${id}.000Z`,
  attempts: 0,
  nextAt: '2026-01-02T03:04:00.000Z',
  problem: null,
  ...fields
})

t.test('keeps messages in their order, and what the latest attempt said', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    for (const id of ['ntf_a', 'ntf_b']) insertNotificationTarget(tx, aTargetForWaitingMessages({ id }))
    for (const id of ['3', '1', '2']) insertWaitingMessage(tx, aMessage(id))
  })
  t.strictSame(firstWaitingMessage(store, 'ntf_a'), aMessage('3'))
  t.same(targetsWithMessages(store), ['ntf_a'])
  t.match(queueOf(store, 'ntf_a'), { waiting: 3, oldestAt: aMessage('1').createdAt, nextAt: null, problem: null })
  const patch = { attempts: 1, nextAt: '2026-01-02T04:00:00.000Z', problem: 'answered 503' }
  await store.write(tx => updateWaitingMessage(tx, '3', patch))
  t.match(queueOf(store, 'ntf_a'), { nextAt: patch.nextAt, problem: 'answered 503' })
  t.equal(await store.write(tx => deleteWaitingMessage(tx, '3')), true)
  t.equal(firstWaitingMessage(store, 'ntf_a')?.id, '1')
  t.same(countWaitingMessages(store), { waiting: 2, oldestAt: aMessage('1').createdAt })
  await store.write(tx => deleteNotificationTarget(tx, 'ntf_a'))
  t.same(countWaitingMessages(store), { waiting: 0, oldestAt: null })
  t.same(queueOf(store, 'unknown'), { waiting: 0, oldestAt: null, nextAt: null, problem: null, dropped: 0 })
})

t.test('keeps why a target did not take its latest message until it takes one, or is removed', async t => {
  const store = await aStore(t)
  const failures = [
    { at: '2026-01-02T03:04:05.000Z', reason: 'answered 401' },
    { at: '2026-01-02T03:04:06.000Z', reason: 'answered 403' }
  ]
  await store.write(tx => {
    insertNotificationTarget(tx, aTargetForWaitingMessages({ id: 'ntf_a' }))
    for (const failure of failures) for (const id of ['ntf_a', 'settings']) noteFailure(tx, id, failure)
  })
  for (const id of ['ntf_a', 'settings']) t.same(findFailure(store, id), failures[1], id)
  const { name } = aTargetForWaitingMessages()
  t.same(refusingTargets(store), ['webhook_url', name])
  await store.write(tx => updateNotificationTarget(tx, 'ntf_a', { enabled: false }))
  t.same(refusingTargets(store), ['webhook_url'], 'nobody waits for one that is switched off')
  await store.write(tx => deleteDelivered(tx, aMessage('7')))
  t.equal(findFailure(store, 'ntf_a'), undefined)
  await store.write(tx => {
    noteFailure(tx, 'ntf_a', { at: '2026-01-02T03:04:07.000Z', reason: 'answered 404' })
    deleteNotificationTarget(tx, 'ntf_a')
    forgetFailure(tx, 'settings')
  })
  for (const id of ['ntf_a', 'settings']) t.equal(findFailure(store, id), undefined, id)
})

t.test('drops the oldest above a number or size, or before a time, and counts them until one is delivered', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    insertNotificationTarget(tx, aTargetForWaitingMessages({ id: 'ntf_a' }))
    for (let i = 0; i < 8; i++) insertWaitingMessage(tx, aMessage(String(i)))
  })
  const drop = (messages: number, bytes: number): Promise<number> =>
    store.write(tx => dropAbove(tx, 'ntf_a', { messages, bytes }))
  t.equal(await drop(8, 10_000), 0)
  t.equal(await drop(6, 10_000), 2)
  t.equal(firstWaitingMessage(store, 'ntf_a')?.id, '2')
  t.equal(await drop(8, 700), 1)
  t.equal(await store.write(tx => dropBefore(tx, 'ntf_a', aMessage('5').createdAt)), 2)
  t.match(queueOf(store, 'ntf_a'), { waiting: 3, dropped: 5 })
  t.equal(await drop(8, 1), 2, 'but not the newest one')
  await store.write(tx => deleteDelivered(tx, aMessage('7')))
  t.match(queueOf(store, 'ntf_a'), { waiting: 0, dropped: 0 })
})
