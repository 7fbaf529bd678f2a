import t from 'tap'
import { systemActor as actor } from '../../lib/model/audit.js'
import { openStage } from '../support/store.js'
import { createVersions } from '../../lib/store/versions.js'

t.test('counts each statement for its table', t => {
  const cases: Array<[string, string]> = [
    ['INSERT INTO projects (id) VALUES (?)', 'projects'],
    ['insert or replace into "tags" values (?)', 'tags'],
    ['UPDATE deployments SET status = ?', 'deployments'],
    ['UPDATE OR IGNORE audit SET a = ?', 'audit'],
    ['DELETE FROM projectTags WHERE a = ?', 'projectTags'],
    ['REPLACE INTO settings VALUES (?)', 'settings'],
    ['WITH a AS (SELECT 1) INSERT INTO projects SELECT * FROM a', 'projects'],
    [' \n update\n tags set a = 1', 'tags']
  ]
  const tables = ['projects', 'tags', 'deployments', 'audit', 'projectTags', 'settings']
  for (const [sql, table] of cases) {
    const versions = createVersions()
    const before = new Map(tables.map(name => [name, versions.of([name])]))
    versions.count([{ sql }])
    for (const name of tables) t.equal(versions.of([name]) !== before.get(name), name === table, `${sql}: ${name}`)
  }
  const versions = createVersions()
  const before = versions.of(['projects'])
  versions.count([{ sql: 'SOMETHING ELSE' }])
  t.not(versions.of(['projects']), before, 'what is not understood counts for all')
  t.end()
})

t.test('changes a version of the store with its tables only', async t => {
  const { store, audit } = await openStage(t)
  const projects = store.version(['projects', 'deployments'])
  const audited = store.version(['audit'])
  await audit.record({ action: 'auth.login', actor })
  t.equal(store.version(['projects', 'deployments']), projects)
  t.not(store.version(['audit']), audited)
  const now = store.version(['audit'])
  await t.rejects(
    store.write(tx => {
      tx.run(`DELETE FROM audit`)
      throw new Error('no')
    })
  )
  t.not(store.version(['audit']), now, 'a write that was rolled back may count')
})
