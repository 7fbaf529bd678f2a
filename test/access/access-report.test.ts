import t from 'tap'
import { createAccessReport, createTokenReminders } from '../../lib/access/access-report.js'
import type { AccessToken, TokenReminder } from '../../lib/model/access.js'
import type { Project } from '../../lib/model/project.js'
import { insertProject } from '../../lib/core/store/tables/projects.js'
import { aToken, insertNamedToken } from '../support/a-token.js'
import { openStage } from '../support/store.js'
import { aProject } from '../core/store/stage.js'
import type { Store } from '../../lib/core/store/database.js'
import { listAudit } from '../../lib/core/store/tables/audit.js'

const shop = aProject({ id: 'proj_shop', name: 'shop', runAs: 'www' })
const forum = aProject({ id: 'proj_forum', name: 'forum', deployPath: '/srv/forum', allowClientScripts: false })

async function openReport(t: Parameters<typeof openStage>[0], given: Array<Partial<AccessToken>>) {
  const { store, clock, audit } = await openStage(t)
  await store.write(tx => {
    for (const project of [shop, forum] as Project[]) insertProject(tx, project)
  })
  const report = createAccessReport({
    store,
    clock,
    settings: { number: () => 30, list: () => ['10.0.0.0/8'] },
    tokens: () => given.map(patch => aToken({ id: `tok_${patch.name}`, ...patch })),
    builtIn: () => [
      { kind: 'admin', projectId: null, projectName: null },
      { kind: 'project', projectId: 'proj_shop', projectName: 'shop' }
    ],
    mayClientsSendScripts: ({ allowClientScripts }) => allowClientScripts ?? true
  })
  return { report, clock, audit }
}

t.test('names the tokens that may deploy to each project', async t => {
  const { report } = await openReport(t, [
    { name: 'all', role: 'operator', projectIds: null },
    { name: 'reader', role: 'viewer', projectIds: null },
    { name: 'ci-shop', projectIds: ['proj_shop'] },
    { name: 'gone', projectIds: ['proj_shop'], revokedAt: '2029-12-31T00:00:00.000Z' },
    { name: 'over', projectIds: ['proj_shop'], expiresAt: '2030-01-01T00:00:00.000Z' }
  ])
  const { tokens, projects, allowedIps, rotateDays } = report()
  t.same(
    tokens.map(({ name }) => name),
    ['all', 'reader', 'ci-shop'],
    'tokens that have ended are left out'
  )
  t.same(Object.fromEntries(projects.map(({ name, tokenIds }) => [name, tokenIds])), {
    shop: ['tok_all', 'tok_ci-shop'],
    forum: ['tok_all']
  })
  t.match(
    projects.find(({ name }) => name === 'shop'),
    { clientScripts: true, runAs: 'www' }
  )
  t.match(
    projects.find(({ name }) => name === 'forum'),
    { clientScripts: false, runAs: null }
  )
  t.same([allowedIps, rotateDays], [['10.0.0.0/8'], 30])
})

t.test('has the days of each token, advice, and the last act of tokens without a name', async t => {
  const { report, clock, audit } = await openReport(t, [{ name: 'ci-shop', lastUsedAt: '2030-02-01T00:00:00.000Z' }])
  await audit.record({ action: 'auth.login', actor: { name: 'admin', ip: null } })
  clock.advance(80 * 86_400_000)
  await audit.record({ action: 'deployment.create', actor: { name: 'project:proj_shop', ip: null } })
  const named = { name: 'admin', ip: null, token: { id: 'tok_1', name: 'ana' } }
  await audit.record({ action: 'deployment.create', actor: named })
  const { tokens, builtIn, at } = report()
  t.equal(at, '2030-03-22T00:00:00.000Z')
  t.match(tokens, [{ daysLeft: 10, secretDays: 80, advice: ['expires_soon', 'rotate'] }])
  t.same(builtIn, [
    { kind: 'admin', projectId: null, lastUsedAt: '2030-01-01T00:00:00.000Z' },
    { kind: 'project', projectId: 'proj_shop', lastUsedAt: at }
  ])
})

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
