import { chmodSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import {
  csrfOf,
  digestOf,
  instanceName,
  openSessionKey,
  sessionKeyName,
  tokenMarkOf
} from '../../lib/access/session-key.js'

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

t.test('digests depend on the key and on the value', async t => {
  const [a, b] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)]
  const digests = [digestOf(a, 'x'), digestOf(a, 'y'), digestOf(b, 'x'), tokenMarkOf(a, 'x'), csrfOf('x'), csrfOf('y')]
  t.equal(new Set(digests).size, digests.length)
  t.match(instanceName(a), /^[0-9a-f]{8}$/)
  t.not(instanceName(a), instanceName(b))
})
