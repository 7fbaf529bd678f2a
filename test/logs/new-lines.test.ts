import { appendFileSync, writeFileSync } from 'node:fs'
import { stat, open } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { newLogLines } from '../../lib/logs/new-lines.js'
import { readWindow } from '../../lib/logs/read/window.js'
import type { LogViewer } from '../../lib/logs/viewer.js'
import { insertLogSource, insertProject } from '../../lib/store/tables/projects.js'
import { aProject, aStore } from '../store/stage.js'

t.test('reads what was appended, and a rotated file from its start', async t => {
  const store = await aStore(t)
  const filePath = join(t.testdir({}), 'app.log')
  writeFileSync(filePath, 'before\n')
  const createdAt = '2030-01-01T00:00:00.000Z'
  const source = { id: 'lsrc_a', projectId: 'proj_a', label: 'app', filePath, kind: 'plain' as const, sortOrder: 0 }
  await store.write(tx => {
    insertProject(tx, aProject({ id: 'proj_a' }))
    insertLogSource(tx, { ...source, createdAt, updatedAt: createdAt })
  })
  const viewer: Pick<LogViewer, 'meta' | 'range'> = {
    meta: async source => ({ ...source, resolvedPath: filePath, size: (await stat(filePath)).size }),
    async range(_, { direction, offset = 0, sizeBytes }) {
      const handle = await open(filePath)
      try {
        return await readWindow(handle, (await handle.stat()).size, { direction, offset, sizeBytes })
      } finally {
        await handle.close()
      }
    }
  }
  const { signal } = new AbortController()
  const read = (offset: number | null, sourceId = 'lsrc_a', projectId = 'proj_a') =>
    newLogLines(store, viewer, { projectId, sourceId, offset, signal })
  const first = await read(null)
  t.strictSame(first, { lines: [], endOffset: 7, hasMore: false })
  t.strictSame(await read(7), { lines: [], endOffset: 7, hasMore: false })
  appendFileSync(filePath, 'one\ntwo\n')
  t.strictSame(await read(7), { lines: ['one', 'two'], endOffset: 15, hasMore: false })
  writeFileSync(filePath, 'new\n')
  t.strictSame(await read(15), { lines: ['new'], endOffset: 4, hasMore: false })
  writeFileSync(filePath, 'x'.repeat(99).concat('\n').repeat(6000))
  const large = await read(0)
  t.ok(large.hasMore)
  t.equal(large.lines.length, large.endOffset / 100)
  await t.rejects(read(0, 'lsrc_b'), { code: 'not_found' })
  await t.rejects(read(0, 'lsrc_a', 'proj_b'), { code: 'not_found' })
})
