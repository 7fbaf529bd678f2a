import t from 'tap'
import { createTokenReminders } from '../../lib/auth/token-reminders.js'
import type { AccessToken } from '../../lib/model/access.js'
import type { TokenReminder } from '../../lib/model/token-advice.js'
import type { Store } from '../../lib/store/database.js'
import { listAudit } from '../../lib/store/tables/audit.js'
import { insertNamedToken } from '../support/a-token.js'
import { openStage } from '../support/store.js'

const dayMs = 86_400_000

async function openReminders(t: Parameters<typeof openStage>[0], given: Array<Partial<AccessToken>>) {
  const stage = await openStage(t)
  const sent: TokenReminder[] = []
  const faults: unknown[] = []
  let tokens = await stage.store.write(tx => given.map(patch => insertNamedToken(tx, patch)))
  const create = (patch: Partial<Pick<Store, 'write'>> = {}) =>
    createTokenReminders({
      ...stage,
      store: { all: stage.store.all, get: stage.store.get, write: stage.store.write, ...patch },
      tokens: () => tokens,
      send: reminder => void sent.push(reminder),
      log: (...fault) => void faults.push(fault)
    })
  const change = (patch: Partial<AccessToken>) => (tokens = tokens.map(token => ({ ...token, ...patch })))
  const told = () => sent.splice(0).map(({ token, daysLeft }) => `${token.name} ${daysLeft}`)
  return { ...stage, create, change, told, faults }
}

t.test('reminds once 14 days and once one day before the end, also after a restart', async t => {
  const { create, clock, told, store, faults } = await openReminders(t, [
    { id: 'tok_a', name: 'a' },
    { id: 'tok_b', name: 'b', expiresAt: '2030-12-01T00:00:00.000Z' },
    { id: 'tok_c', name: 'c', revokedAt: '2030-01-02T00:00:00.000Z' }
  ])
  const reminders = create()
  clock.advance(75.9 * dayMs)
  await reminders.check()
  t.same(told(), [], 'too early')
  clock.advance(0.1 * dayMs)
  await Promise.all([reminders.check(), reminders.check()])
  t.same(told(), ['a 14'])
  clock.advance(10 * dayMs)
  await create().check()
  t.same(told(), [], 'sent before the restart')
  clock.advance(3.5 * dayMs)
  await create().check()
  await create().check()
  t.same(told(), ['a 1'])
  clock.advance(dayMs)
  await create().check()
  t.same(told(), [], 'it has ended')
  t.match(
    listAudit(store, { limit: 10 }).map(({ action, actor, target, detail }) => [action, actor, target, detail]),
    Array.from({ length: 2 }, () => ['token.expiring', 'system', 'tok_a', /^a, expires 2030-04-01/])
  )
  t.same(faults, [])
})

t.test('a later end of the same token needs reminders of its own', async t => {
  const { create, clock, told, change } = await openReminders(t, [{}])
  clock.advance(77 * dayMs)
  await create().check()
  t.same(told(), ['ci-shop 13'])
  change({ expiresAt: '2030-07-01T00:00:00.000Z', rotatedAt: '2030-03-20T00:00:00.000Z' })
  await create().check()
  t.same(told(), [])
  clock.advance(92 * dayMs)
  await create().check()
  t.same(told(), ['ci-shop 12'])
})

t.test('starts with a check, and stops after it', async t => {
  const { create, clock, told } = await openReminders(t, [{}])
  clock.advance(89.5 * dayMs)
  const reminders = create()
  reminders.start()
  await reminders.stop()
  t.same(told(), ['ci-shop 1'])
})

t.test('a reminder that cannot be stored is sent by the next check that can', async t => {
  const { create, clock, told, faults } = await openReminders(t, [{}])
  clock.advance(80 * dayMs)
  const full = create({ write: () => Promise.reject(new Error('no space')) })
  await full.check()
  t.same(told(), [])
  t.match(faults, [[/reminders/, { message: 'no space' }]])
  await create().check()
  t.same(told(), ['ci-shop 10'])
})
