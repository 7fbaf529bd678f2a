import t from 'tap'
import { createAccessReport } from '../../lib/auth/access-report.js'
import type { AccessToken } from '../../lib/model/access.js'
import type { Project } from '../../lib/model/project.js'
import { insertProject } from '../../lib/store/tables/projects.js'
import { aToken } from '../support/a-token.js'
import { openStage } from '../support/store.js'
import { aProject } from '../store/stage.js'

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
