import { chownSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { runSync } from '../../../lib/core/install/sync-program.js'
import { runHelper } from '../../../lib/core/proc/helper.js'
import { findIdentity, maySwitchUser } from '../../../lib/core/proc/identity.js'
import { disk } from '../../../lib/core/install/disk.js'
import { canHoldDirectories, holdTarget } from '../../../lib/core/install/held.js'
import type { Job } from '../../support/helper-fixture.js'
import { openDirectory } from '../../support/open-directory.js'

const never = new AbortController().signal
const skip = !canHoldDirectories && 'directories cannot be held'

t.test('syncs the file system of a held directory', { skip }, async t => {
  const root = holdTarget(disk, t.testdir({ a: 'a' }))
  t.teardown(() => root.close())
  t.equal(await runSync(root, never), true)
})

t.test('returns false if syncing is not possible or is aborted', async t => {
  const held = { path: t.testdir(), close: () => {} }
  t.equal(await runSync({ ...held, fd: null }, never), false, 'directories that are not held')
  t.equal(await runSync({ ...held, fd: 999_999 }, never), false)
  t.equal(await runSync({ ...held, fd: 1 }, AbortSignal.abort()), false)
})

const options = maySwitchUser() ? {} : { skip: 'only root on Linux can switch to another user' }

t.test('works in a helper process, in a directory that only its user can enter', options, async t => {
  const directory = join(openDirectory(t), 'own')
  mkdirSync(directory, 0o700)
  const identity = await findIdentity('nobody')
  chownSync(directory, identity.uid, identity.gid)
  const module = new URL('../../support/helper-fixture.js', import.meta.url)
  t.equal(
    await runHelper<Job, unknown>({
      module,
      rights: { identity, umask: null },
      job: { do: 'sync', directory },
      read: value => value
    }),
    true
  )
})
