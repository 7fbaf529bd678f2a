import t from 'tap'
import type { LogSource } from '../../../lib/model/log-source.js'
import {
  deleteLogSource,
  findLogSource,
  insertLogSource,
  listAllLogSources,
  listLogSources,
  updateLogSource
} from '../../../lib/store/tables/log-sources.js'
import { deleteProject, insertProject } from '../../../lib/store/tables/projects.js'
import { aProject, aStore } from '../stage.js'

const aSource = (fields: Partial<LogSource> = {}): LogSource => ({
  id: 'log_a',
  projectId: 'proj_a',
  label: 'access',
  filePath: '/var/log/access.log',
  kind: 'json',
  sortOrder: 0,
  createdAt: '2026-01-02T03:04:05.678Z',
  updatedAt: '2026-01-02T03:04:05.678Z',
  ...fields
})
const idsOf = (sources: readonly LogSource[]): string[] => sources.map(({ id }) => id)

t.test('reads a source as it was written, changes and removes it', async t => {
  const store = await aStore(t)
  await store.write(tx => insertProject(tx, aProject()))
  await store.write(tx => insertLogSource(tx, aSource()))
  t.strictSame(findLogSource(store, 'log_a'), aSource())
  t.equal(await store.write(tx => updateLogSource(tx, 'log_a', { label: 'new', kind: 'plain' })), true)
  t.strictSame(findLogSource(store, 'log_a'), aSource({ label: 'new', kind: 'plain' }))
  t.equal(await store.write(tx => updateLogSource(tx, 'log_none', { label: 'new' })), false)
  t.equal(await store.write(tx => deleteLogSource(tx, 'log_a')), true)
  t.equal(await store.write(tx => deleteLogSource(tx, 'log_a')), false)
  t.equal(findLogSource(store, 'log_a'), undefined)
})

t.test('lists sources in their order, then as added, and removes them with their project', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    for (const id of ['proj_a', 'proj_b']) insertProject(tx, aProject({ id }))
    for (const [id, projectId, sortOrder] of [
      ['log_late', 'proj_a', 2],
      ['log_first', 'proj_a', 1],
      ['log_second', 'proj_a', 1],
      ['log_other', 'proj_b', 0]
    ] as const) {
      insertLogSource(tx, aSource({ id, projectId, sortOrder, filePath: `/${id}` }))
    }
  })
  t.same(idsOf(listLogSources(store, 'proj_a')), ['log_first', 'log_second', 'log_late'])
  t.same(idsOf(listAllLogSources(store)), ['log_first', 'log_second', 'log_late', 'log_other'])
  await store.write(tx => deleteProject(tx, 'proj_a'))
  t.same(idsOf(listAllLogSources(store)), ['log_other'])
})
