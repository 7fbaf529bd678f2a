import { chownSync, existsSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { systemClock } from '../../../lib/base/clock.js'
import { restoreBackup } from '../../../lib/carry/backup/restore.js'
import { openBackup } from '../../../lib/carry/backup/read.js'
import { ownDirectory } from '../../../lib/core/store/owner.js'
import { forgeBackup, smallHome } from '../../support/backup.js'

async function stageOf(t: Test) {
  const top = t.testdir({})
  const files = await smallHome(join(top, 'source'))
  const path = join(top, 'a.zip')
  await forgeBackup(path, files)
  const directory = join(top, 'a', 'b', 'home')
  return {
    directory,
    top,
    files,
    /** Restores the backup; `force` moves existing files aside. */
    async restore(options: { force?: boolean; signal?: AbortSignal } = {}) {
      const backup = await openBackup(path)
      try {
        return await restoreBackup(backup, {
          directory,
          force: false,
          clock: systemClock,
          ids: { token: () => 'abcdefgh-more' },
          ...options
        })
      } finally {
        backup.close()
      }
    },
    isRestored: () =>
      Object.entries(files).every(([name, bytes]) => Buffer.from(bytes).equals(readFileSync(join(directory, name))))
  }
}

t.test('creates a missing directory with the contents and times of the backup', async t => {
  const { directory, restore, isRestored } = await stageOf(t)
  t.strictSame(await restore(), { aside: null, kept: null, signers: false })
  t.ok(isRestored())
  t.strictSame(readdirSync(directory).sort(), ['config.json', 'deployments', 'svc.db', 'svc.restored'])
  const stats = statSync(join(directory, 'config.json'))
  t.equal(stats.mtimeMs, 1_750_000_000_000)
  t.equal(stats.mode & 0o077, 0, 'only the owner has access')
  t.equal(statSync(directory).mode & 0o077, 0)
})

t.test('refuses a directory with contents, and moves them aside with force', async t => {
  const { directory, restore, isRestored } = await stageOf(t)
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  writeFileSync(join(directory, 'svc.db'), 'precious')
  await t.rejects(restore(), { code: 'not_empty', message: /it contains "svc\.db"\. Choose another/ })
  writeFileSync(join(directory, 'config.json'), '{}')
  await t.rejects(restore(), { code: 'not_empty', message: /and 1 more/ })
  t.equal(readFileSync(join(directory, 'svc.db'), 'utf8'), 'precious')
  t.strictSame(
    readdirSync(directory).filter(name => name.startsWith('.')),
    []
  )

  const { aside } = await restore({ force: true })
  t.ok(isRestored())
  t.equal(readFileSync(join(aside as string, 'svc.db'), 'utf8'), 'precious')
})

t.test('keeps the keys that the owner of the machine trusts now', async t => {
  const { directory, restore } = await stageOf(t)
  const signers = join(directory, 'keys/allowed_signers')
  mkdirSync(join(directory, 'keys'), { recursive: true, mode: 0o700 })
  writeFileSync(signers, 'ana ssh-ed25519 AAAA')
  t.match(await restore({ force: true }), { signers: true })
  t.equal(readFileSync(signers, 'utf8'), 'ana ssh-ed25519 AAAA')
})

t.test('refuses a directory in use', async t => {
  const { directory, restore } = await stageOf(t)
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  const owner = await ownDirectory(directory)
  t.teardown(() => owner.release())
  await t.rejects(restore({ force: true }), { code: 'in_use' })
})

t.test('leaves nothing behind after an abort, not even the directories it created', async t => {
  const { top, restore } = await stageOf(t)
  const aborted = new AbortController()
  aborted.abort(new Error('given up'))
  await t.rejects(restore({ signal: aborted.signal }), { message: 'given up' })
  t.notOk(existsSync(join(top, 'a')))
})

const notRoot = process.getuid?.() === 0 ? false : 'only root can restore for another user'
t.test('gives files that root restores to the owner of the directory', { skip: notRoot }, async t => {
  const { directory, restore } = await stageOf(t)
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  writeFileSync(join(directory, 'old.txt'), 'old')
  chownSync(directory, 65534, 65534)
  const { aside } = await restore({ force: true })
  for (const name of ['svc.db', 'config.json', 'deployments', 'deployments/dep_aaaaaaaaaaaaaaaa.log']) {
    t.equal(statSync(join(directory, name)).uid, 65534, name)
  }
  t.equal(statSync(aside as string).uid, 65534)
})
