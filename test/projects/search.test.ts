import t from 'tap'
import type { AuditEntry } from '../../lib/model/audit.js'
import type { Project } from '../../lib/model/project.js'
import { createSearch, searchTypes, type SearchType, createComponents } from '../../lib/projects/search.js'
import { settingRows } from '../../lib/projects/settings.js'
import type { Reader } from '../../lib/core/store/database.js'
import { insertAudit } from '../../lib/core/store/tables/audit.js'
import { insertDeployment } from '../../lib/core/store/tables/deployments.js'
import { insertLogSource, insertProject } from '../../lib/core/store/tables/projects.js'
import { aDeployment, aProject, aStore } from '../core/store/stage.js'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DeploymentRow } from '../../lib/model/deployment.js'
import type { PlacedRelease } from '../../lib/model/node.js'

const entry = (number: number): AuditEntry => ({
  id: `aud_${number}`,
  at: '2030',
  action: 'auth.login',
  actor: 'admin',
  tokenId: null,
  tokenName: null,
  role: null,
  sessionId: null,
  ip: '192.0.2.7',
  claimedIp: null,
  projectId: null,
  target: null,
  detail: number === 0 ? 'of the first login' : null,
  ok: true,
  failures: null,
  seq: null
})

t.test('search', async t => {
  const store = await aStore(t)
  const project = (fields: Partial<Project>) => aProject({ id: 'proj_a', ...fields })
  await store.write(tx => {
    insertProject(tx, project({ name: 'Müller 100% shop', deployPath: '/srv/www/mueller' }))
    const source = { id: 'lsrc_a', projectId: 'proj_a', label: 'Requests', filePath: '/var/log/nginx/access.log' }
    insertLogSource(tx, { ...source, kind: 'plain', sortOrder: 0, createdAt: '2030', updatedAt: '2030' })
    insertProject(tx, project({ id: 'proj_b', name: 'blog', deployPath: '/srv/blog', token: 'secret-token' }))
    for (let i = 0; i < 10_000; i++) {
      const message = i % 100 === 0 ? `Release ${i}` : `commit ${i} of somebody who writes long subject lines`
      insertDeployment(
        tx,
        aDeployment({
          id: `dep_${i}`,
          projectId: 'proj_b',
          projectName: 'blog',
          message,
          startTime: new Date(i * 1000).toISOString()
        })
      )
    }
    for (let i = 0; i < 5000; i++) insertAudit(tx, entry(i))
  })
  const search = createSearch({ store, settings: settingRows })
  const find = (q: string, type: SearchType, limit = 5) => {
    const group = search.find({ q, types: [type], limit }).groups[0]
    return { total: group?.total, ids: group?.items.map(({ id }) => id) }
  }

  t.test('finds each type, ignoring case', async t => {
    t.same(find('SHOP', 'projects'), { total: 1, ids: ['proj_a'] })
    t.same(find('MÜLLER', 'projects'), { total: 1, ids: ['proj_a'] })
    t.same(find('Müller', 'projects'), { total: 1, ids: ['proj_a'] })
    t.same(find('/srv/blog', 'projects').ids, ['proj_b'])
    t.same(find('release', 'deployments', 2), { total: 100, ids: ['dep_9900', 'dep_9800'] }, 'newest first')
    t.same(find('dep_4711', 'deployments').ids, ['dep_4711'])
    t.same(find('4711', 'deployments').ids, ['dep_4711'], 'an id without its prefix')
    t.equal(find('192.0.2.7', 'audit').total, 1000, 'counted so far')
    t.same(find('archive', 'settings').ids, [
      'max_upload_size',
      'max_extracted_size',
      'fleet_upload_rate',
      'keep_archives',
      'keep_undo'
    ])
    t.same(find('ACCESS', 'log-sources'), { total: 1, ids: ['lsrc_a'] })
    t.same(find('requests', 'log-sources').ids, ['lsrc_a'])
  })

  t.test('takes % and _ literally, never finds a secret, and finds nothing for an empty text', async t => {
    t.equal(find('100%', 'projects').total, 1)
    t.equal(find('100_', 'projects').total, 0)
    t.equal(find('%', 'deployments').total, 0)
    t.equal(find('secret-token', 'projects').total, 0)
    t.equal(find('', 'deployments').total, 0)
  })

  t.test('every result links to an existing page', async t => {
    const { groups } = search.find({ q: 'blog', types: searchTypes, limit: 1 })
    t.same(
      groups.map(({ type }) => type),
      [...searchTypes]
    )
    t.match(groups[0]?.items[0], { id: 'proj_b', title: 'blog', subtitle: /srv\/blog/, href: 'projects/proj_b' })
    t.match(groups[1]?.items[0], { id: 'dep_9999', href: 'deployments/dep_9999', subtitle: /^blog · success/ })
  })

  t.test('reads the newest 10,000 deployments and 5,000 audit entries, and nothing older', async t => {
    t.same(find('dep_0', 'deployments'), { total: 1, ids: ['dep_0'] })
    t.equal(find('of the first login', 'audit').total, 1)
    await store.write(tx => {
      const times = { startTime: new Date(10_000_000).toISOString() }
      insertDeployment(tx, aDeployment({ id: 'dep_new', projectId: 'proj_b', projectName: 'blog', ...times }))
      insertAudit(tx, entry(5000))
    })
    t.same(find('dep_new', 'deployments'), { total: 1, ids: ['dep_new'] })
    t.same(find('dep_0', 'deployments'), { total: 0, ids: [] })
    t.equal(find('of the first login', 'audit').total, 0)
  })

  t.test('sorts no rows: an index has them in their order, so a search ends at its limits', async t => {
    const plans: string[] = []
    const planned: Reader = {
      get: (sql, ...values) => store.get(sql, ...values),
      all(sql, ...values) {
        plans.push(
          store
            .all(`EXPLAIN QUERY PLAN ${sql}`, ...values)
            .map(({ detail }) => String(detail))
            .join('\n')
        )
        return store.all(sql, ...values)
      }
    }
    const types: SearchType[] = ['deployments', 'audit']
    createSearch({ store: planned, settings: settingRows }).find({ q: 'release 42', types, limit: 5 })
    t.equal(plans.length, types.length)
    for (const plan of plans) t.notMatch(plan, /TEMP B-TREE/)
  })
})

t.test('exact names come first, then the newest', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    for (const [index, name] of ['storefront', 'old-storefront', 'storefront-staging'].entries()) {
      insertProject(tx, aProject({ id: `proj_${index}`, name, deployPath: `/srv/${index}`, token: `${index}` }))
      const source = { id: `lsrc_${index}`, projectId: 'proj_0', label: name, filePath: `/var/log/${index}` }
      insertLogSource(tx, { ...source, kind: 'plain', sortOrder: 0, createdAt: '2030', updatedAt: '2030' })
    }
  })
  const { groups } = createSearch({ store, settings: settingRows }).find({
    q: 'StoreFront',
    types: ['projects', 'log-sources'],
    limit: 2
  })
  const found = groups.map(({ total, items }) => [total, ...items.map(({ id }) => id)])
  t.same(found, [
    [3, 'proj_0', 'proj_2'],
    [3, 'lsrc_0', 'lsrc_2']
  ])
})

const never = new AbortController().signal

function listOf(count: number, prefix: string): string {
  const components = Array.from({ length: count }, (_, at) => ({ name: `${prefix}-${at}`, version: `1.${at}.0` }))
  return JSON.stringify({ bomFormat: 'CycloneDX', specVersion: '1.5', components })
}

/** A search over projects p0, p1 … whose live deployments have these lists; null: none. */
function stage(lists: Array<string | null>, placed: Record<string, PlacedRelease[]> = {}) {
  const directory = mkdtempSync(join(tmpdir(), 'svc-components-'))
  lists.forEach((list, at) => {
    if (list !== null) writeFileSync(join(directory, `dep_${at}`), list)
  })
  const row = (at: number, more: Partial<DeploymentRow> = {}) =>
    ({
      id: `dep_${at}`,
      endTime: '2026-11-30T00:00:00.000Z',
      treeSha256: 'a',
      rollbackOf: null,
      promotedFrom: null,
      ...more
    }) as DeploymentRow
  const projects = lists.map((_, at) => ({ id: `p${at}`, name: `shop ${at}`, deployPath: `/srv/${at}` }) as Project)
  const live = new Map(projects.map(({ id }, at) => [id, row(at)]))
  const components = createComponents({
    store: { prepare: () => ({ get: () => undefined, all: () => [] }) } as never,
    sbomOf: id => join(directory, id),
    liveDeployment: id => live.get(id),
    releasesOnNodes: id => placed[id] ?? []
  })
  return { components, projects, live, row }
}

t.test('a component is found in every release in place, and projects without a list are named', async t => {
  const { components, projects } = stage([listOf(3, 'log4j'), null, listOf(2, 'zlib'), 'torn'])
  const found = await components.search(projects, { name: 'log4j-1' }, never)
  t.match(found, { searched: 2, truncated: false })
  t.match(found.components, [
    { projectId: 'p0', projectName: 'shop 0', deployId: 'dep_0', target: '/srv/0', name: 'log4j-1', version: '1.1.0' }
  ])
  t.same(
    found.unknown.map(({ projectId }) => projectId),
    ['p1', 'p3']
  )
  t.same((await components.search(projects, { name: 'log4j', version: '9' }, never)).components, [])
})

t.test('an answer is limited, and a search can be given up', async t => {
  const { components, projects } = stage([listOf(5000, 'log4j')])
  const found = await components.search(projects, { name: 'log4j' }, never)
  t.match(found, { truncated: true })
  t.equal(found.components.length, 1000)
  await t.rejects(components.search(projects, { name: 'log4j' }, AbortSignal.abort(new Error('given up'))), /given up/)
})

t.test('two hundred lists of 10,000 components are searched, and others get their turn', async t => {
  const { components, projects } = stage(Array.from({ length: 200 }, (_, at) => listOf(10_000, `c${at}`)))
  let turns = 0
  let longestMs = 0
  let last = performance.now()
  const timer = setInterval(() => {
    longestMs = Math.max(longestMs, performance.now() - last)
    last = performance.now()
    turns++
  }, 1)
  const from = performance.now()
  const found = await components.search(projects, { name: 'c199-9999' }, never)
  clearInterval(timer)
  t.match(found.components, [{ projectId: 'p199' }])
  t.comment(`${Math.round(performance.now() - from)} ms, ${turns} turns, longest ${Math.round(longestMs)} ms`)
  t.ok(turns > 50)
})

t.test('more than a few searches at a time are refused', async t => {
  const { components, projects } = stage([listOf(10, 'a')])
  const all = await Promise.allSettled(
    Array.from({ length: 12 }, () => components.search(projects, { name: 'a' }, never))
  )
  const refused = all.filter(each => each.status === 'rejected')
  t.equal(refused.length, 3)
  t.match(refused[0], { reason: { code: 'search_busy' } })
})
