import t from 'tap'
import type { AuditEntry } from '../../lib/model/audit.js'
import type { Project } from '../../lib/model/project.js'
import { createSearch, searchTypes, type SearchType } from '../../lib/projects/search.js'
import { settingRows } from '../../lib/projects/settings.js'
import type { Reader } from '../../lib/core/store/database.js'
import { insertAudit } from '../../lib/core/store/tables/audit.js'
import { insertDeployment } from '../../lib/core/store/tables/deployments.js'
import { insertLogSource, insertProject } from '../../lib/core/store/tables/projects.js'
import { aDeployment, aProject, aStore } from '../core/store/stage.js'

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
