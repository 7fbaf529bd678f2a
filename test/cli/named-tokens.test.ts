import t from 'tap'
import { mkdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { endOf, remarksOf, scopeOf, useOf } from '../../lib/cli/named-tokens.js'
import { startServe } from '../support/serve-process.js'
import { svc } from '../support/svc.js'

t.test('a secret is written to a new file that only its owner can read', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  const admin = { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken } }
  const made = await svc(['token', 'create', 'one', '--role', 'viewer', '--out', 'one.token'], admin)
  t.match(made, { code: 0, stdout: '', stderr: /The secret is in one\.token/ })
  const file = join(cwd, 'one.token')
  t.match(readFileSync(file, 'utf8'), /^svc_[a-z2-7]{8}_[\w-]{43}_[\w-]{6}\n$/)
  t.equal(statSync(file).mode & 0o777, 0o600)

  const shown = await svc(['token', 'create', 'two', '--role', 'viewer', '--out', 'one.token'], admin)
  t.match(shown, {
    code: 0,
    stdout: /^svc_/,
    stderr: /could not be written to one\.token: file already exists\. It is shown instead/
  })
  mkdirSync(join(cwd, 'directory'))
  t.match(await svc(['token', 'rotate', 'two', '--out', 'directory'], admin), { code: 0, stdout: /^svc_/ })
})

t.test('a token is found by its name, whatever the case, and by its id', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  const admin = { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken } }
  const { stdout } = await svc(['token', 'create', 'Ana', '--role', 'admin', '--json'], admin)
  const { id } = JSON.parse(stdout).record
  t.match(await svc(['token', 'rotate', 'ANA'], admin), { code: 0 })
  t.match(await svc(['token', 'rotate', id], admin), { code: 0 })
  t.match(await svc(['token', 'rotate', 'bob'], admin), {
    code: 1,
    stderr: /Token not found: "bob"\. "svc token list"/
  })
})

const nowMs = Date.parse('2026-11-23T12:00:00.000Z')

t.test('says when a token ends', async t => {
  const cases: Array<[expiresAt: string, revokedAt: string | null, said: string]> = [
    ['2027-02-20T12:00:01.000Z', null, 'expires in 90 days'],
    ['2026-11-24T12:00:00.000Z', null, 'expires in 1 day'],
    ['2026-11-24T11:30:00.000Z', null, 'expires at 11:30 UTC'],
    ['2026-11-23T12:00:00.000Z', null, 'expired now'],
    ['2026-11-20T12:00:00.000Z', null, 'expired 3d ago'],
    ['2027-02-20T12:00:00.000Z', '2026-11-23T11:00:00.000Z', 'revoked 1h ago']
  ]
  for (const [expiresAt, revokedAt, said] of cases) t.equal(endOf({ expiresAt, revokedAt }, nowMs), said)
})

t.test('says when and from where a token was used', async t => {
  const lastUsedAt = '2026-11-23T11:56:00.000Z'
  t.equal(useOf({ lastUsedAt: null, lastUsedIp: null }, nowMs), 'never')
  t.equal(useOf({ lastUsedAt, lastUsedIp: '10.0.0.7' }, nowMs), '4m ago from 10.0.0.7')
  t.equal(useOf({ lastUsedAt, lastUsedIp: null }, nowMs), '4m ago', 'the local socket')
})

t.test('names the projects, and a removed one by its id', async t => {
  const names = new Map([['proj_a', 'shop']])
  t.equal(scopeOf({ projectIds: null }, names), 'all projects')
  t.equal(scopeOf({ projectIds: ['proj_a', 'proj_b'] }, names), 'shop, proj_b')
})

t.test('remarks name a second factor and the advice', async t => {
  t.equal(remarksOf({ advice: [], secondFactor: false }), '')
  const remarks = remarksOf({ advice: ['expires_soon', 'unused', 'rotate'], secondFactor: true })
  t.equal(remarks, 'second factor, expires soon, unused for 90 days, old secret')
})
