import { randomBytes } from 'node:crypto'
import { mkdirSync, promises, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { checkNewToken, openAdminToken, strongToken, weaknessOf } from '../../lib/access/admin-token.js'
import { randomIds } from '../../lib/base/digests.js'

const strong = 'correct-horse-battery-1234'

function homeIn(directory: string, config?: object) {
  mkdirSync(directory, { recursive: true })
  const home = { directory, configFile: join(directory, 'config.json') }
  if (config) writeFileSync(home.configFile, JSON.stringify(config))
  return home
}

t.test('applies the strength policy', async t => {
  const cases: Array<[string, RegExp | null]> = [
    [strong, null],
    ['a1b2c3d4e5f6g7h8i9j0k1l2', null],
    ['short1', /6 characters; at least 24 are required/],
    ['onlylettersonlylettersonly', /no digit/],
    ['123456789012345678901234', /no letter/],
    ['a1a1a1a1a1a1a1a1a1a1a1a1a1', /2 different/]
  ]
  for (const [token, weakness] of cases) t.match(weaknessOf(token), weakness)
  for (let i = 0; i < 100; i++) t.equal(weaknessOf(strongToken(randomIds)), null)
})

t.test('checks new tokens', async t => {
  t.doesNotThrow(() => checkNewToken('12345678', 'newToken'))
  for (const token of ['1234567', '', 'with a space', 'ümlaute-und-mehr', 'x'.repeat(2000)]) {
    t.throws(() => checkNewToken(token, 'newToken'), { kind: 'invalid', code: 'invalid_field', field: 'newToken' })
  }
})

t.test('the first start generates a token and keeps other settings', async t => {
  const home = homeIn(t.testdir(), { serverUrl: 'http://one.example' })
  const admin = await openAdminToken({ home, ids: randomIds })
  const config = JSON.parse(readFileSync(home.configFile, 'utf8'))
  t.equal(config.serverUrl, 'http://one.example')
  t.equal(config.adminToken, admin.current())
  t.equal(weaknessOf(admin.current()), null)
  t.equal(statSync(home.configFile).mode & 0o777, 0o600)
  t.equal(admin.verify(config.adminToken), true)
  t.equal(admin.verify(`${config.adminToken}x`), false)
  t.equal(admin.verify(''), false)
  t.equal((await openAdminToken({ home, ids: randomIds })).current(), config.adminToken, 'the next start uses it')
})

t.test("removes other users' access to the file", async t => {
  const home = homeIn(t.testdir(), { adminToken: strong })
  await openAdminToken({ home, ids: randomIds })
  t.equal(statSync(home.configFile).mode & 0o777, 0o600)
})

t.test('a change of the file applies at once, however it is made', async t => {
  const home = homeIn(t.testdir(), { adminToken: strong })
  const admin = await openAdminToken({ home, ids: randomIds })
  for (let i = 0; i < 20; i++) {
    const token = randomBytes(16).toString('hex')
    writeFileSync(home.configFile, JSON.stringify({ adminToken: token }))
    await nextTurn()
    t.equal(admin.current(), token, 'written in place with the same size at the same time')
  }
  writeFileSync(`${home.configFile}.new`, JSON.stringify({ adminToken: 'renamed-over-it' }))
  renameSync(`${home.configFile}.new`, home.configFile)
  await nextTurn()
  t.equal(admin.current(), 'renamed-over-it')
})

t.test('notices a change of an old file', async t => {
  const home = homeIn(t.testdir(), { adminToken: strong })
  const past = new Date(Date.now() - 60_000)
  utimesSync(home.configFile, past, past)
  const admin = await openAdminToken({ home, ids: randomIds })
  writeFileSync(home.configFile, JSON.stringify({ adminToken: 'x'.repeat(strong.length) }))
  utimesSync(home.configFile, past, past)
  await nextTurn()
  t.equal(admin.current(), 'x'.repeat(strong.length), 'an old modification time does not hide a change')
})

t.test('a missing or incomplete file leaves the last token valid', async t => {
  const home = homeIn(t.testdir(), { adminToken: strong })
  const admin = await openAdminToken({ home, ids: randomIds })
  for (const broken of ['', '{"adminTok', '[]', 'null', '{"adminToken": 5}', '{"adminToken": ""}']) {
    writeFileSync(home.configFile, broken)
    await nextTurn()
    t.equal(admin.current(), strong)
  }
  rmSync(home.configFile)
  await nextTurn()
  t.equal(admin.current(), strong)
})

t.test('ADMIN_TOKEN overrides the file until the file gets another token', async t => {
  const home = homeIn(t.testdir(), { adminToken: strong })
  const admin = await openAdminToken({ home, ids: randomIds, override: 'from-the-environment' })
  t.equal(admin.current(), 'from-the-environment')
  t.equal(admin.verify(strong), false)
  await admin.change('changed-while-running')
  t.equal(admin.current(), 'changed-while-running')
  t.equal(admin.verify('from-the-environment'), false)
})

t.test('generates nothing if there is an ADMIN_TOKEN', async t => {
  const home = homeIn(t.testdir())
  const admin = await openAdminToken({ home, ids: randomIds, override: 'from-the-environment' })
  t.equal(admin.current(), 'from-the-environment')
  t.throws(() => readFileSync(home.configFile))
})

t.test('checks a change', async t => {
  const home = homeIn(t.testdir(), { adminToken: strong })
  const admin = await openAdminToken({ home, ids: randomIds })
  await t.rejects(admin.change('short'), { kind: 'invalid', code: 'invalid_field', field: 'newToken' })
  t.equal(admin.current(), strong)
})

t.test('refuses a broken config.json and does not overwrite it', async t => {
  const home = homeIn(t.testdir())
  writeFileSync(home.configFile, '{"serverUrl": ')
  await t.rejects(openAdminToken({ home, ids: randomIds }), { code: 'broken_config' })
  t.equal(readFileSync(home.configFile, 'utf8'), '{"serverUrl": ')
})

t.test('a reloaded override applies if it differs, and without one the file applies', async t => {
  const home = homeIn(t.testdir(), { adminToken: strong })
  const admin = await openAdminToken({ home, ids: randomIds, override: 'first-override' })
  await admin.override('second-override')
  t.equal(admin.current(), 'second-override')
  await admin.change('kept-by-a-reset')
  t.equal(admin.current(), 'kept-by-a-reset')
  await admin.override('second-override')
  t.equal(admin.current(), 'kept-by-a-reset', 'the reset is deliberate')
  await admin.override('third-override')
  t.equal(admin.current(), 'third-override')
  await admin.override(undefined)
  t.equal(admin.current(), 'kept-by-a-reset')
})

t.test('generates a token if the override is removed and the file contains no token', async t => {
  const home = homeIn(t.testdir())
  const admin = await openAdminToken({ home, ids: randomIds, override: 'an-override' })
  await admin.override(undefined)
  t.equal(weaknessOf(admin.current()), null)
  t.equal(JSON.parse(readFileSync(home.configFile, 'utf8')).adminToken, admin.current())
})

t.test('a change succeeds once the file contains the token, whatever fails later', async t => {
  const home = homeIn(t.testdir(), { adminToken: strong })
  const admin = await openAdminToken({ home, ids: randomIds })
  const rm = promises.rm
  let failed = 0
  t.teardown(() => {
    promises.rm = rm
    syncBuiltinESMExports()
  })
  // The lock, which is released after the file has the new token.
  promises.rm = async (path, options) => {
    await rm(path, options)
    failed++
    throw Object.assign(new Error('EIO: i/o error, unlink'), { code: 'EIO' })
  }
  syncBuiltinESMExports()
  await admin.change('another-token-12345678')
  t.ok(failed > 0)
  t.ok(admin.verify('another-token-12345678'))
  t.notOk(admin.verify(strong))
})
