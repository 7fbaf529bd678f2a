import t from 'tap'
import type { WaitingMessage } from '../../../lib/model/notification-target.js'
import { deleteNotificationTarget, insertNotificationTarget } from '../../../lib/store/tables/notification-targets.js'
import {
  countWaitingMessages,
  deleteDelivered,
  deleteWaitingMessage,
  dropAbove,
  dropBefore,
  firstWaitingMessage,
  insertWaitingMessage,
  queueOf,
  targetsWithMessages,
  updateWaitingMessage
} from '../../../lib/store/tables/waiting-messages.js'
import { aStore } from '../stage.js'
import { aTarget } from '../../support/notification-target.js'

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
    for (const id of ['ntf_a', 'ntf_b']) insertNotificationTarget(tx, aTarget({ id }))
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

t.test('drops the oldest above a number or size, or before a time, and counts them until one is delivered', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    insertNotificationTarget(tx, aTarget({ id: 'ntf_a' }))
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
