import t from 'tap'
import { chmodSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openSessionKey, sessionKeyName } from '../../lib/access/session-key.js'
import { svc } from '../support/svc.js'

t.test('creates a key once, readable only by its owner', async t => {
  const directory = t.testdir()
  const key = openSessionKey({ directory })
  t.equal(key.current(), null)
  let created = 0
  const [one, other] = await Promise.all([key.ensure(async () => created++), key.ensure(async () => created++)])
  t.equal(created, 1)
  t.same(one, other)
  const file = join(directory, sessionKeyName)
  t.equal(statSync(file).mode & 0o777, 0o600)
  chmodSync(file, 0o644)
  t.same(openSessionKey({ directory }).current(), one)
  t.equal(statSync(file).mode & 0o777, 0o600, "other users' access is removed")
  t.not(readFileSync(file, 'utf8').length, 0)
})

t.test('replaces a broken file at the next session', async t => {
  const directory = t.testdir()
  writeFileSync(join(directory, sessionKeyName), 'short')
  const key = openSessionKey({ directory })
  t.equal(key.current(), null)
  t.equal((await key.ensure(async () => {})).length, 32)
})

t.test('a key that cannot be read is refused, by a server before it listens', async t => {
  const directory = t.testdir()
  mkdirSync(join(directory, sessionKeyName))
  t.throws(() => openSessionKey({ directory }), {
    code: 'session_key_unreadable',
    message: `Cannot read the key of browser sessions "${join(directory, sessionKeyName)}": is a directory. Move it away: everybody then signs in again`
  })
  const { code, stdout, stderr } = await svc(['serve', '--port', '0'], { cwd: directory, env: { SVC_HOME: directory } })
  t.match({ code, stdout, stderr }, { code: 1, stdout: '', stderr: /^error: Cannot read the key of browser sessions / })
})
