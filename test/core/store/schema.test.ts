import t from 'tap'
import { createMemory, loadSqlite } from '../../../lib/core/store/memory.js'
import { applicationId, migrate, schemaVersion, versionOf } from '../../../lib/core/store/schema.js'

t.test("migrate takes every step once, and marks the database as svc's", async t => {
  const memory = createMemory(await loadSqlite(), null)
  t.teardown(() => memory.close())
  t.equal(versionOf(memory), 0)
  t.equal(migrate(memory), schemaVersion)
  t.equal(versionOf(memory), schemaVersion)
  t.equal(memory.pragma('application_id'), applicationId)
  t.equal(migrate(memory), 0)
  t.equal(memory.pragma('quick_check'), 'ok')
})

t.test('applies all migrations or none', async t => {
  const memory = createMemory(await loadSqlite(), null)
  t.teardown(() => memory.close())
  memory.script('CREATE TABLE audit (in_the_way)')
  t.throws(() => migrate(memory), /already exists/)
  t.equal(versionOf(memory), 0)
  t.same(memory.all("SELECT name FROM sqlite_schema WHERE type = 'table'"), [{ name: 'audit' }])
})

const lists: Array<[what: string, sql: string]> = [
  ['all deployments', 'SELECT * FROM deployments ORDER BY orderedAt DESC, position DESC LIMIT 10'],
  ['a status', 'SELECT * FROM deployments WHERE status = ? ORDER BY orderedAt DESC, position DESC LIMIT 10'],
  ['a project', 'SELECT * FROM deployments WHERE projectId = ? ORDER BY orderedAt DESC, position DESC LIMIT 10'],
  [
    'a project and a status',
    'SELECT * FROM deployments WHERE projectId = ? AND status = ? ORDER BY orderedAt DESC, position DESC LIMIT 10'
  ],
  [
    'what is still to be put back',
    'SELECT id FROM deployments WHERE revertReason IS NOT NULL AND revertedAt IS NULL ORDER BY position'
  ],
  ['the audit log of an action', 'SELECT * FROM audit WHERE action = ? ORDER BY position DESC LIMIT 10'],
  ['the audit log of a project', 'SELECT * FROM audit WHERE projectId = ? ORDER BY position DESC LIMIT 10']
]

for (const [what, sql] of lists) {
  t.test(`uses an index to list ${what}, and does not sort`, async t => {
    const memory = createMemory(await loadSqlite(), null)
    t.teardown(() => memory.close())
    migrate(memory)
    const plan = memory
      .all(`EXPLAIN QUERY PLAN ${sql}`)
      .map(({ detail }) => detail)
      .join('; ')
    t.notMatch(plan, 'TEMP B-TREE')
    t.match(plan, /USING INDEX/)
  })
}
