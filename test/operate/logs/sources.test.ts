import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { notFound } from '../../../lib/base/errors.js'
import { createOpenLog, createDeny } from '../../../lib/operate/logs/read/open.js'
import { createLogSources } from '../../../lib/operate/logs/sources.js'
import { insertProject } from '../../../lib/core/store/tables/projects.js'
import { openStage } from '../../support/store.js'
import { aProject } from '../../core/store/stage.js'

const actor = { name: 'admin', ip: '192.0.2.1' }

async function stage(t: Test) {
  const { store, clock, ids, audit, directory } = await openStage(t)
  await store.write(tx => insertProject(tx, aProject()))
  const openLog = createOpenLog({ deny: createDeny([]), secrets: [] })
  const checkProject = (id: string): void => {
    if (id !== 'proj_a') throw notFound('Project', id)
  }
  const path = (name: string): string => {
    writeFileSync(join(directory, name), '')
    return join(directory, name)
  }
  return { sources: createLogSources({ store, clock, ids, audit, openLog, checkProject }), path }
}

t.test('adds sources in order, named after their files', async t => {
  const { sources, path } = await stage(t)
  await sources.create('proj_a', [{ filePath: path('b.log') }, { filePath: path('a.log'), label: 'Access' }], actor)
  await sources.create('proj_a', [{ filePath: path('c.log'), kind: 'json' }], actor)
  t.match(sources.list('proj_a'), [
    { label: 'b.log', kind: 'plain', sortOrder: 0 },
    { label: 'Access', kind: 'plain', sortOrder: 1 },
    { label: 'c.log', kind: 'json', sortOrder: 2 }
  ])
  t.same(sources.listAll(), sources.list('proj_a'))
})

t.test('adds several sources or none, and names the invalid one', async t => {
  const { sources, path } = await stage(t)
  const items = [{ filePath: path('a.log') }, { filePath: 'relative.log' }]
  await t.rejects(sources.create('proj_a', items, actor), { code: 'invalid_field' })
  await t.rejects(sources.create('proj_x', [], actor), { code: 'not_found' })
  t.same(sources.list('proj_a'), [])
})

t.test('changes and removes a source, and counts unknown ones separately', async t => {
  const { sources, path } = await stage(t)
  const [one] = await sources.create('proj_a', [{ filePath: path('a.log') }], actor)
  const id = one?.id as string
  t.match(await sources.update(id, { label: 'Errors', sortOrder: 5 }, actor), { label: 'Errors', sortOrder: 5 })
  t.match(await sources.removeAll([id, id, 'lsrc_none'], actor), { done: 1, failed: [{ id: 'lsrc_none' }] })
  t.throws(() => sources.get(id), { name: 'Refusal' })
})
