import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { syncDirectory, syncPath } from '../../lib/base/sync.js'

t.test('syncs files and directories; a missing one is an error only for syncPath', async t => {
  const directory = t.testdir({})
  await writeFile(join(directory, 'a'), 'x')
  await syncPath(join(directory, 'a'))
  await syncPath(directory)
  await syncDirectory(directory)
  await t.rejects(syncPath(join(directory, 'none')), { code: 'ENOENT' })
  await syncDirectory(join(directory, 'none'))
})
