import t, { type Test } from 'tap'
import { NamedTokens } from '../../lib/access/named-tokens.js'
import { isTokenText } from '../../lib/base/shared/token-text.js'
import { listAudit } from '../../lib/core/store/tables/audit.js'
import { openStage } from '../support/store.js'

const actor = { name: 'admin', ip: '192.0.2.1' }
const dayMs = 24 * 60 * 60_000

async function stageOf(t: Test, maxDays = 365) {
  const stage = await openStage(t)
  const ended: string[] = []
  const named = new NamedTokens({
    ...stage,
    settings: { number: () => maxDays },
    isProject: (_, id) => id.startsWith('proj_'),
    onEnd: id => void ended.push(id)
  })
  t.teardown(() => named.close())
  return { ...stage, named, ended }
}

t.test('a token identifies its caller, and only its digest is stored', async t => {
  const { named, store, clock } = await stageOf(t)
  const fields = { name: 'ci-shop', role: 'deployer', projectIds: ['proj_a', 'proj_a'] } as const
  const { token, record } = await named.create({ ...fields, projectIds: [...fields.projectIds] }, actor)
  t.equal(isTokenText(token), true)
  t.match(record, { name: 'ci-shop', role: 'deployer', projectIds: ['proj_a'], createdBy: 'admin', lastUsedAt: null })
  t.equal(Date.parse(record.expiresAt) - clock.now(), 90 * dayMs, 'the default')
  t.notOk('digest' in record || 'oldDigest' in record)
  t.same(named.callerOf(token, '10.0.0.7'), {
    name: 'token:ci-shop',
    role: 'deployer',
    projects: ['proj_a'],
    token: { id: record.id, name: 'ci-shop' },
    showScripts: false,
    needsSecondFactor: false
  })
  t.equal(named.callerOf(`${token.slice(0, -1)}x`, null), null)
  t.equal(named.callerOf('another-token', null), null)
  t.notMatch(JSON.stringify(store.all('SELECT * FROM tokens')), token.split('_')[2] as string)
  t.notMatch(JSON.stringify(listAudit(store, { limit: 9 })), token.split('_')[2] as string)
  t.match(listAudit(store, { limit: 1 }), [
    {
      action: 'token.create',
      actor: 'admin',
      target: record.id,
      detail: /^ci-shop\nname: ci-shop\nrole: deployer\nprojectIds: proj_a\n.*\nexpiresAt: 20/s
    }
  ])
})

t.test('refuses fields that make no sense', async t => {
  const { named, clock } = await stageOf(t)
  const create = (fields: object) => named.create({ name: 'x', role: 'viewer', ...fields }, actor)
  await named.create({ name: 'Ana', role: 'admin' }, actor)
  await t.rejects(create({ name: 'ANA' }), { code: 'name_taken' })
  await t.rejects(create({ projectIds: [] }), {
    code: 'invalid_field',
    message: /projectIds|"projectIds"|limited to projects/
  })
  await t.rejects(create({ projectIds: ['none'] }), { message: /no such project/ })
  await t.rejects(create({ role: 'admin', projectIds: ['proj_a'] }), {
    code: 'invalid_field',
    message: /projectIds|"projectIds"|limited to projects/
  })
  await t.rejects(create({ allowedIps: ['10.0.0.0/33'] }), {
    code: 'invalid_field',
    message: /allowedIps|"projectIds"|limited to projects/
  })
  const at = (days: number) => new Date(clock.now() + days * dayMs).toISOString()
  await t.rejects(create({ expiresAt: at(-1) }), { message: /past/ })
  await t.rejects(create({ expiresAt: at(366) }), { message: /token_max_days allows 365/ })
  t.equal((await create({ expiresAt: at(365) })).record.expiresAt, at(365))
  t.equal(named.list().length, 2)
})

t.test('the setting limits the default, too', async t => {
  const { named, clock } = await stageOf(t, 7)
  const { record } = await named.create({ name: 'x', role: 'viewer' }, actor)
  t.equal(Date.parse(record.expiresAt) - clock.now(), 7 * dayMs)
})

t.test('a token ends when it expires or is revoked, and only its holder is told', async t => {
  const { named, clock, ended } = await stageOf(t)
  const one = await named.create({ name: 'one', role: 'viewer' }, actor)
  const two = await named.create({ name: 'two', role: 'viewer' }, actor)
  await named.revoke(two.record.id, actor)
  for (const finishes of [false, true])
    t.throws(() => named.callerAgain(two.token, null, finishes), { code: 'token_revoked' })
  t.same(ended, [two.record.id])
  t.throws(() => named.callerOf(two.token, null), { code: 'token_revoked', kind: 'unauthorized' })
  t.equal(named.callerById(two.record.id, null), null)
  await t.rejects(named.revoke(two.record.id, actor), { code: 'already_revoked' })
  await t.rejects(named.update(two.record.id, { name: 'three' }, actor), { code: 'already_revoked' })
  await t.rejects(named.rotate(two.record.id, { overlapSeconds: 0 }, actor), { code: 'already_revoked' })
  await t.rejects(named.revoke('tok_none', actor), { code: 'not_found' })

  clock.advance(90 * dayMs)
  t.throws(() => named.callerOf(one.token, null), { code: 'token_expired', message: /expired at 20.* UTC/ })
  t.same(named.validDigests(one.record.id), [])
  t.throws(() => named.callerAgain(one.token, null, false), { code: 'token_expired' }, 'streams end, too')
  t.match(named.callerAgain(one.token, null, true), { name: 'token:one' }, 'what was begun is finished')
})

t.test('a rotation has an overlap in which both secrets are valid', async t => {
  const { named, clock } = await stageOf(t)
  const { token: first, record } = await named.create({ name: 'ci', role: 'deployer' }, actor)
  const { token: second, record: rotated } = await named.rotate(record.id, { overlapSeconds: 3600 }, actor)
  t.equal(Date.parse(rotated.oldExpiresAt as string) - clock.now(), 3600_000)
  t.ok(named.callerOf(first, '10.0.0.1'))
  t.equal(named.validDigests(record.id).length, 2)
  await named.flush()
  t.equal(named.get(record.id).oldLastUsedAt, new Date(clock.now()).toISOString(), 'the earlier secret is still used')
  t.ok(named.callerOf(second, '10.0.0.1'))
  clock.advance(3600_000)
  t.throws(() => named.callerOf(first, null), { code: 'token_expired', message: /new secret/ })
  t.ok(named.callerAgain(first, null, true), 'it finishes what it began')
  t.ok(named.callerOf(second, null))
  t.equal(named.validDigests(record.id).length, 1)

  const { token: third } = await named.rotate(record.id, { overlapSeconds: 0 }, actor)
  t.equal(named.callerAgain(second, null, true), null)
  t.equal(named.callerOf(second, null), null, 'without an overlap the secret is unknown at once')
  t.ok(named.callerOf(third, null))
})

t.test('an overlap never prolongs the earlier secret', async t => {
  const { named, clock } = await stageOf(t)
  const end = new Date(clock.now() + 60_000).toISOString()
  const { token, record } = await named.create({ name: 'ci', role: 'viewer', expiresAt: end }, actor)
  const { record: rotated } = await named.rotate(record.id, { overlapSeconds: 3600 }, actor)
  t.equal(rotated.oldExpiresAt, end)
  clock.advance(30_000)
  t.ok(named.callerOf(token, null))
  clock.advance(30_000)
  t.throws(() => named.callerOf(token, null), { code: 'token_expired' })
})

t.test('a token with addresses is accepted from them only', async t => {
  const { named } = await stageOf(t)
  const { token } = await named.create({ name: 'ci', role: 'viewer', allowedIps: ['10.0.0.0/8', '::1'] }, actor)
  t.ok(named.callerOf(token, '10.1.2.3'))
  t.ok(named.callerOf(token, null), 'the local socket')
  t.throws(() => named.callerOf(token, '192.0.2.9'), { code: 'address_not_allowed', kind: 'forbidden' })
  t.throws(() => named.signIn(token, '192.0.2.9'), { code: 'address_not_allowed' })
})

t.test('a token with a second factor only signs in', async t => {
  const { named, store } = await stageOf(t)
  const { token, record } = await named.create({ name: 'ana', role: 'admin' }, actor)
  await store.write(tx =>
    tx.run(
      `INSERT INTO secondFactors (tokenId, secret, confirmedAt, lastStep, recovery) VALUES (?, 's', 'x', 0, '[]')`,
      record.id
    )
  )
  t.throws(() => named.callerOf(token, null), { code: 'second_factor_required' })
  t.throws(() => named.callerAgain(token, null, true), { code: 'second_factor_required' })
  t.match(named.signIn(token, null), { id: record.id })
  t.ok(named.callerById(record.id, null), 'its sessions')
  t.equal(named.list()[0]?.secondFactor, true)
})

t.test('a change of rights applies at once', async t => {
  const { named, ended } = await stageOf(t)
  const { token, record } = await named.create({ name: 'ci', role: 'operator' }, actor)
  t.match(named.callerOf(token, null), { role: 'operator', projects: null })
  await named.update(record.id, { role: 'viewer', projectIds: ['proj_b'], name: 'CI' }, actor)
  t.match(named.callerOf(token, null), { role: 'viewer', projects: ['proj_b'], name: 'token:CI' })
  t.same(ended, [record.id])
  await t.rejects(named.update(record.id, { role: 'admin' }, actor), {
    code: 'invalid_field',
    message: /projectIds|"projectIds"|limited to projects/
  })
  await named.update(record.id, { role: 'admin', projectIds: null }, actor)
  t.match(named.callerOf(token, null), { role: 'admin', projects: null })
})

t.test('the last use is written once a minute, and listed at once', async t => {
  const { named, store, clock } = await stageOf(t)
  const { token, record } = await named.create({ name: 'ci', role: 'viewer' }, actor)
  named.callerAgain(token, '10.0.0.9', false)
  t.match(named.get(record.id), { lastUsedAt: null }, 'to ask again is no use')
  named.callerOf(token, '10.0.0.1')
  t.match(named.get(record.id), { lastUsedAt: new Date(clock.now()).toISOString(), lastUsedIp: '10.0.0.1' })
  t.match(store.get('SELECT lastUsedAt FROM tokens'), { lastUsedAt: null })
  await named.flush()
  t.match(store.get('SELECT lastUsedIp FROM tokens'), { lastUsedIp: '10.0.0.1' })
})

t.test('tokens that have ended leave the list after 90 days', async t => {
  const { named, clock } = await stageOf(t)
  const { record } = await named.create({ name: 'old', role: 'viewer' }, actor)
  await named.revoke(record.id, actor)
  clock.advance(89 * dayMs)
  await named.create({ name: 'one', role: 'viewer' }, actor)
  t.equal(named.list().length, 2)
  clock.advance(2 * dayMs)
  await named.create({ name: 'two', role: 'viewer' }, actor)
  t.same(
    named.list().map(({ name }) => name),
    ['one', 'two']
  )
})
