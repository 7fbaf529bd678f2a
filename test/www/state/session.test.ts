import t from 'tap'
import { apiRoutes } from '../../../lib/api/routes.js'
import { leastRole } from '../../../lib/access/bearer.js'
import { accessRoles, includesRole, type AccessRole } from '../../../lib/model/access.js'
import { pageTable, fleetRoom, shownRooms, shownTabs } from '../../../www/router.js'
import {
  holderNow,
  hasFleet,
  isRole,
  lackOf,
  learnFleet,
  lookAtNode,
  may,
  mayDecide,
  mayOpen,
  pageRights,
  mayLoosen,
  rightNeeds,
  setHolder,
  type Right,
  createPreferences,
  createSession,
  groupsOf,
  type SessionEvent,
  type TokenStorage,
  type Holder
} from '../../../www/state/session.js'
import { startServer } from '../../support/server.js'
import type { Project } from '../../../lib/model/project.js'

t.teardown(() => setHolder(null))

/** The request that each right is needed for. */
const routes: Readonly<Record<Right, string>> = {
  deploy: 'POST /api/deploy/upload',
  decide: 'POST /api/deployments/:id/cancel',
  rollback: 'POST /api/deployments/:id/rollback',
  promote: 'POST /api/projects/:id/promote',
  undo: 'POST /api/projects/:id/undo',
  repair: 'POST /api/projects/:id/repair',
  mark: 'PATCH /api/deployments/:id/status',
  delete_archive: 'DELETE /api/deployments/:id/archive',
  lock: 'PUT /api/projects/:id/lock',
  lock_server: 'DELETE /api/lock',
  maintain: 'PUT /api/projects/:id/maintenance',
  files: 'GET /api/projects/:id/files',
  pm2: 'GET /api/projects/:id/pm2',
  pm2_apps: 'GET /api/pm2/apps',
  change_logs: 'PATCH /api/log-sources/:sourceId',
  remove_logs: 'POST /api/log-sources/bulk',
  add_logs: 'POST /api/projects/:id/log-sources',
  health: 'GET /api/health/detail',
  create_project: 'POST /api/projects',
  change_projects: 'POST /api/projects/bulk',
  change_project: 'PUT /api/projects/:id',
  labels: 'POST /api/tags',
  storage: 'GET /api/storage',
  settings: 'GET /api/settings',
  tokens: 'GET /api/tokens',
  audit: 'GET /api/audit/export',
  export: 'GET /api/migration/export',
  terminal: 'GET /api/terminal/ws',
  manage_rollouts: 'POST /api/rollouts/:rolloutId/halt',
  approve_rollouts: 'POST /api/rollouts/:rolloutId/approve',
  drain: 'PUT /api/nodes/:node/drain',
  change_nodes: 'PATCH /api/nodes/:node',
  enroll: 'POST /api/enrollments',
  place: 'PATCH /api/projects/:id/placements'
}

function hold(role: AccessRole, projects: readonly string[] | null = null): void {
  setHolder({ role, name: `token:${role}`, token: { id: `tok_${role}`, name: role }, projects })
}

t.test('only a deployer needs the policy to push what is looser', async t => {
  for (const [role, allowed, forbidden] of [
    ['viewer', false, false],
    ['deployer', true, false],
    ['operator', true, true],
    ['admin', true, true]
  ] as const) {
    hold(role)
    t.strictSame([mayLoosen(true), mayLoosen(false)], [allowed, forbidden], role)
  }
})

t.test('each right is what the server demands for its request', async t => {
  const stage = await startServer(t)
  const rows = apiRoutes(stage.server.services.api)
  for (const [right, request] of Object.entries(routes) as Array<[Right, string]>) {
    const row = rows.find(({ method, path }) => `${method} ${path}` === request)
    if (row === undefined) {
      t.fail(`${right}: ${request} is no route`)
      continue
    }
    const need: { role: AccessRole; isOfServer?: true } = rightNeeds[right]
    t.same(
      { role: need.role, isOfServer: need.isOfServer === true },
      { role: leastRole(row.auth), isOfServer: row.scope === 'server' },
      `${right}: ${request}`
    )
  }
})

t.test('a role has a right if it includes the least role', async t => {
  setHolder(null)
  for (const right of Object.keys(rightNeeds) as Right[]) t.notOk(may(right), `${right} without a session`)
  for (const role of accessRoles) {
    for (const right of Object.keys(rightNeeds) as Right[]) {
      const need: { role: AccessRole; isOfServer?: true } = rightNeeds[right]
      hold(role)
      t.equal(may(right), includesRole(role, need.role), `${role}: ${right}`)
      hold(role, ['proj_a'])
      t.equal(may(right), includesRole(role, need.role) && need.isOfServer !== true, `${role} of a project: ${right}`)
    }
  }
  hold('viewer', ['proj_a'])
  t.same([lackOf('health'), lackOf('settings')], ['scope', 'role'])
  hold('viewer')
  t.same([lackOf('health'), lackOf('settings')], [null, 'role'])
})

t.test('a deployer decides about the deployments of its own token only', async t => {
  for (const [role, own, foreign] of [
    ['viewer', false, false],
    ['deployer', true, false],
    ['operator', true, true],
    ['admin', true, true]
  ] as const) {
    hold(role)
    t.same(
      [mayDecide({ tokenId: `tok_${role}` }), mayDecide({ tokenId: 'tok_x' }), mayDecide({ tokenId: null })],
      [own, foreign, foreign],
      role
    )
  }
})

t.test('rooms, tabs and pages follow the rights', async t => {
  const addresses = (): string[] => shownRooms().map(({ first }) => first)
  hold('admin')
  t.same(addresses(), ['.', 'projects', 'deployments', 'logs', 'terminal', 'system', 'settings'])
  t.same(
    shownTabs('settings').map(({ address }) => address),
    ['settings', 'access', 'labels', 'migration']
  )
  hold('operator')
  t.same(addresses(), ['.', 'projects', 'deployments', 'logs', 'system'])
  t.same(
    shownTabs('system').map(({ address }) => address),
    ['system', 'audit']
  )
  hold('viewer', ['proj_a'])
  t.same(addresses(), ['.', 'projects', 'deployments', 'logs', 'audit'], 'the first page of the room that is open')
  t.ok(mayOpen('') && mayOpen('.') && mayOpen('projects/:id') && mayOpen('login'))
  t.notOk(mayOpen('projects/:id/settings') || mayOpen('access'))
})

t.test('the fleet is a room of its own on a server that has one', async t => {
  const session = { holder: null }
  const addresses = (): string[] => shownRooms().map(({ address }) => address)
  const system = (): string[] => shownTabs('system').map(({ address }) => address)
  hold('admin')
  t.same([hasFleet(), addresses().includes('nodes'), fleetRoom()], [false, false, 'system'])
  t.ok(system().includes('nodes'), 'an admin may begin one')
  hold('operator')
  t.notOk(system().includes('nodes'), 'an operator may not')
  hold('viewer', ['proj_a'])
  t.equal(learnFleet(false, session), false, 'nothing new')
  t.equal(learnFleet(true, session), true)
  t.match(session.holder, { role: 'viewer', hasFleet: true }, 'kept for the next page load')
  t.same([hasFleet(), addresses().includes('nodes'), fleetRoom()], [true, true, 'nodes'])
  hold('admin')
  learnFleet(true, session)
  t.notOk(system().includes('nodes'), 'said once')
})

t.test('on the pages of a node, only what reads is offered', async t => {
  t.teardown(() => lookAtNode(false))
  hold('admin')
  lookAtNode(true)
  t.same((Object.keys(rightNeeds) as Right[]).filter(may), ['files', 'pm2', 'pm2_apps', 'health', 'terminal'])
  t.ok(mayOpen('settings') && mayOpen('nodes/:node/terminal'), 'the navigation stays')
  hold('operator')
  t.notOk(may('terminal'))
  t.notOk(mayOpen('nodes/:node/terminal'))
})

t.test('each page with a right exists', async t => {
  const paths = pageTable.map(({ path }) => path)
  t.same(
    Object.keys(pageRights).filter(path => !paths.includes(path)),
    []
  )
})

t.test('knows the roles', async t => {
  t.ok(accessRoles.every(isRole))
  for (const other of ['', 'project', 'toString', null, undefined, 1]) t.notOk(isRole(other), String(other))
  hold('viewer')
  t.match(holderNow(), { role: 'viewer' })
})

const project = (name: string, env: string, categoryId: string | null) => ({ name, env, categoryId }) as Project
const projects = [
  project('a', 'staging', 'internal'),
  project('b', 'production', null),
  project('c', 'staging', 'customers'),
  project('d', 'production', 'gone')
]
const shown = (...words: Parameters<typeof groupsOf>): string =>
  groupsOf(...words)
    .map(({ key, projects }) => `${key}: ${projects.map(({ name }) => name).join('')}`)
    .join(', ')

t.test('groups projects and keeps their order inside a group', async t => {
  t.equal(shown(projects, 'none', []), 'null: abcd')
  t.equal(shown(projects, 'env', []), 'production: bd, staging: ac')
  const others = ['dev', 'qa', 'berlin', 'aarhus', 'production', 'staging'].map(env => project('x', env, null))
  t.equal(
    shown(others, 'env', []),
    'production: x, aarhus: x, berlin: x, staging: x, qa: x, dev: x',
    'in the order of broken projects'
  )
  const categories = ['customers', 'internal', 'empty']
  t.equal(shown(projects, 'category', categories), 'customers: c, internal: a, null: bd')
})

function storage(): TokenStorage & { entries: Map<string, string> } {
  const entries = new Map<string, string>()
  return {
    entries,
    getItem: key => entries.get(key) ?? null,
    setItem: (key, value) => void entries.set(key, value),
    removeItem: key => void entries.delete(key)
  }
}

const base = 'http://host/'

t.test('the storage notes the session and contains no secret', async t => {
  const [tab, browser] = [storage(), storage()]
  const session = createSession({ base, tab, browser })
  const reasons: unknown[] = []
  session.addEventListener('session', event => reasons.push((event as SessionEvent).reason))
  t.equal(session.id, null)
  session.begin({ id: 'ses_1', csrf: 'the-csrf' })
  t.equal(session.id, 'ses_1')
  t.equal(session.csrf, 'the-csrf')
  t.same([...browser.entries.values()], ['ses_1'])
  t.equal(tab.entries.size, 0)
  session.end('expired')
  t.same([session.id, session.csrf, browser.entries.size], [null, null, 0])
  t.same(reasons, [null, 'expired'])
})

t.test('removes the token that an earlier version stored', async t => {
  const [tab, browser] = [storage(), storage()]
  tab.setItem(`svc.token ${base}`, 'the-admin-token')
  browser.setItem(`svc.token ${base}`, 'the-admin-token')
  t.equal(createSession({ base, tab, browser }).id, null)
  t.same([tab.entries.size, browser.entries.size], [0, 0])
})

t.test('follows another tab that signs in or out', async t => {
  const browser = storage()
  const session = createSession({ base, tab: storage(), browser })
  session.begin({ id: 'ses_1', csrf: 'the-csrf' })
  const reasons: unknown[] = []
  session.addEventListener('session', event => reasons.push((event as SessionEvent).reason))
  session.heard({ key: 'svc.theme http://host/', newValue: 'dark' })
  session.heard({ key: 'svc.session http://host/a/', newValue: null })
  t.same(reasons, [], 'something else')
  session.heard({ key: 'svc.session http://host/', newValue: 'ses_2' })
  t.equal(session.csrf, null, 'of a session before')
  session.heard({ key: 'svc.session http://host/', newValue: null })
  session.heard({ key: null, newValue: null })
  t.same(reasons, [null, 'expired', 'expired'])
})

t.test('keeps two servers on one host apart', async t => {
  const browser = storage()
  createSession({ base: 'http://host/a/', tab: storage(), browser }).begin({ id: 'ses_1', csrf: 'x' })
  t.equal(createSession({ base: 'http://host/b/', tab: storage(), browser }).id, null)
})

function chosen(wanted: string[]) {
  const kept = storage()
  return { kept: kept.entries, preferences: createPreferences({ base: 'http://host/', storage: kept, wanted }) }
}

t.test('stores preferences only after a choice, and reads them again', async t => {
  const { kept, preferences } = chosen(['de', 'zh-CN', 'en'])
  t.equal(preferences.theme, 'system')
  t.equal(preferences.language, 'zh', 'the first that the panel speaks')
  t.equal(kept.size, 0)
  preferences.theme = 'dark'
  t.equal(preferences.grouping, 'none')
  preferences.grouping = 'category'
  t.equal(preferences.grouping, 'category')
  preferences.language = 'en'
  t.equal(preferences.theme, 'dark')
  t.equal(preferences.language, 'en')
  kept.set('svc.theme http://host/', 'nonsense')
  t.equal(preferences.theme, 'system')
})

t.test('falls back to English', async t => {
  t.equal(chosen(['de', 'fr']).preferences.language, 'en')
  t.equal(chosen(['en-US', 'zh']).preferences.language, 'en')
})

t.test('keeps whose session it is, for this session only', async t => {
  const browser = storage()
  const session = createSession({ base, tab: storage(), browser })
  const holder: Holder = {
    role: 'deployer',
    name: 'token:ci',
    token: { id: 'tok_a', name: 'ci' },
    projects: ['proj_a']
  }
  session.begin({ id: 'ses_1', csrf: 'the-csrf' })
  t.equal(session.holder, null, 'the server was not asked yet')
  session.holder = holder
  t.strictSame(createSession({ base, tab: storage(), browser }).holder, holder, 'after a reload')
  browser.setItem(`svc.session ${base}`, 'ses_2')
  t.equal(session.holder, null, 'another session began in another tab')
  browser.setItem(`svc.session ${base}`, 'ses_1')
  for (const broken of ['', 'null', '{', '{"session":"ses_1"}', '{"session":"ses_1","role":"root"}']) {
    browser.setItem(`svc.holder ${base}`, broken)
    t.equal(session.holder, null, broken)
  }
  session.holder = holder
  session.end('signed_out')
  t.equal(session.holder, null)
  t.equal(browser.entries.size, 0)
  session.holder = holder
  t.equal(browser.entries.size, 0, 'an answer after the end is not kept')
})
