import t from 'tap'
import type { Test } from 'tap'
import { Limiter } from '../../lib/access/limiter.js'
import {
  codeOf,
  createProof,
  createSecondFactors,
  newRecoveryCodes,
  newSecret,
  otpauthOf,
  recoveryDigest,
  stepOf
} from '../../lib/access/second-factor.js'
import type { Request } from '../../lib/http/core/route.js'
import { listAudit } from '../../lib/core/store/tables/audit.js'
import { openStage } from '../support/store.js'
import { setClock } from '../support/clock.js'

const actor = { name: 'token:ana', ip: '192.0.2.1' }
const owner = { id: 'tok_a', name: 'ana' }
const inSession = { issuer: 'svc', actor: { ...actor, session: { id: 'ses_own' } } }
const origin = {
  headers: {},
  query: new URLSearchParams(),
  client: { address: '192.0.2.1', witnessed: '192.0.2.1', viaProxy: false, local: false }
} as unknown as Request

async function stageOf(t: Test) {
  const stage = await openStage(t)
  const { store, clock } = stage
  await store.write(tx =>
    tx.run(`INSERT INTO tokens (id, name, digest, role, allowedIps, showScripts, createdAt, createdBy, expiresAt)
      VALUES ('tok_a', 'ana', 'd', 'admin', '[]', 0, '2026', 'admin', '2027')`)
  )
  const limiter = new Limiter({ clock, onFailure: () => {} })
  const sealing = {
    seal: async (id: string, text: string) => `${id}:${text}`,
    unseal: async (id: string, text: string) => text.slice(id.length + 1)
  }
  const locks: Array<{ tokenId: string; lockedUntil: string }> = []
  const sessions = { removeOf: () => 2 }
  const make = () =>
    createSecondFactors({
      ...stage,
      limiter,
      sealing,
      sessions,
      onLocked: lock => void locks.push(lock)
    })
  const factors = make()
  const code = (secret: string) => codeOf(secret, Math.floor(clock.now() / 30_000))
  const enrol = async () => {
    const { secret } = await factors.begin(owner, inSession)
    const recovery = await factors.confirm(owner, { code: code(secret), origin, ...inSession })
    clock.advance(30_000)
    return { secret, recovery }
  }
  return { ...stage, factors, code, enrol, make, locks }
}

t.test('an enrolment is in force when its first code has been given', async t => {
  const { factors, code, store } = await stageOf(t)
  await factors.check(owner, { code: undefined, origin, actor })
  const { secret, link } = await factors.begin(owner, { ...inSession, issuer: 'svc host' })
  t.match(link, `secret=${secret}`)
  await factors.check(owner, { code: undefined, origin, actor })
  await t.rejects(factors.confirm(owner, { code: '000000', origin, ...inSession }), { code: 'wrong_code' })
  const recovery = await factors.confirm(owner, { code: code(secret), origin, ...inSession })
  t.equal(recovery.length, 10)
  await t.rejects(factors.begin(owner, inSession), { code: 'factor_enrolled' })
  await t.rejects(factors.confirm(owner, { code: '1', origin, ...inSession }), { code: 'factor_enrolled' })
  await t.rejects(factors.check(owner, { code: undefined, origin, actor }), { code: 'code_required' })
  const kept = JSON.stringify([store.all('SELECT * FROM secondFactors'), listAudit(store, { limit: 9 })])
  for (const text of recovery) t.notMatch(kept, text)
  t.match(listAudit(store, { limit: 1 }), [
    { action: 'second_factor.enrol', target: 'tok_a', detail: 'ana, ended 2 other sessions' }
  ])
})

t.test('each code is accepted once, also of two at the same time', async t => {
  const { factors, code, enrol, clock } = await stageOf(t)
  const { secret } = await enrol()
  const now = code(secret)
  const both = await Promise.allSettled([1, 2].map(() => factors.check(owner, { code: now, origin, actor })))
  t.same(both.map(({ status }) => status).sort(), ['fulfilled', 'rejected'])
  await t.rejects(factors.check(owner, { code: now, origin, actor }), { code: 'wrong_code' })
  clock.advance(30_000)
  await factors.check(owner, { code: code(secret), origin, actor })
})

t.test('a recovery code works once, and says how many are left', async t => {
  const { factors, enrol, store } = await stageOf(t)
  const { recovery } = await enrol()
  const [first = ''] = recovery
  await factors.check(owner, { code: first.toUpperCase(), origin, actor })
  t.match(listAudit(store, { limit: 1 }), [{ action: 'second_factor.recovery', detail: 'ana, 9 left' }])
  await t.rejects(factors.check(owner, { code: first, origin, actor }), { code: 'wrong_code' })
})

t.test('wrong codes lock the address, as wrong tokens do', async t => {
  const { factors, enrol } = await stageOf(t)
  await enrol()
  for (let n = 0; n < 8; n++) {
    await t.rejects(factors.check(owner, { code: '000000', origin, actor }), { code: 'wrong_code' })
  }
  await t.rejects(factors.check(owner, { code: '000000', origin, actor }), { code: 'locked_out' })
})

/** An address that has not failed yet: the count of an address must not decide. */
function from(n: number): Request {
  const address = `198.51.${n >> 8}.${n & 255}`
  return { ...origin, client: { address, witnessed: address, viaProxy: false, local: false } } as Request
}

t.test('ten wrong codes lock the token for 15 minutes, whatever comes in between', async t => {
  const { factors, enrol, code, clock, make, locks, store } = await stageOf(t)
  const { secret, recovery } = await enrol()
  const guess = (n: number, given = '000000', of = factors) =>
    of.check(owner, { code: given, origin: from(n), actor }).then(
      () => 'right',
      error => error.code
    )
  for (let n = 0; n < 9; n++) t.equal(await guess(n), 'wrong_code', `guess ${n}`)
  t.equal(await guess(9, code(secret)), 'right', 'the owner signs in')
  clock.advance(30_000)
  const restarted = make()
  t.equal(await guess(10, '000000', restarted), 'wrong_code', 'the tenth one, after a restart')
  const lockedUntil = new Date(clock.now() + 15 * 60_000).toISOString()
  t.same(locks, [{ tokenId: 'tok_a', lockedUntil }])
  t.match(listAudit(store, { limit: 1 }), [
    { action: 'second_factor.lock', ok: false, target: 'tok_a', detail: `ana, 10 wrong codes, until ${lockedUntil}` }
  ])
  for (const given of ['000000', code(secret), recovery[0] as string]) {
    t.equal(await guess(11, given, make()), 'code_locked', 'also a right code')
  }
  clock.advance(15 * 60_000)
  t.equal(await guess(12), 'wrong_code', 'the count begins again')
  t.equal(await guess(12, code(secret)), 'right')
})

t.test('guesses at the same time are no more than ten', async t => {
  const { factors, enrol, locks } = await stageOf(t)
  await enrol()
  const codes = await Promise.all(
    Array.from({ length: 150 }, (_, n) =>
      factors.check(owner, { code: '000000', origin: from(n), actor }).catch(error => error.code)
    )
  )
  t.equal(codes.filter(each => each === 'wrong_code').length, 10)
  t.equal(codes.filter(each => each === 'code_locked').length, 140)
  t.equal(locks.length, 1)
})

t.test('a second factor is added in a session only, and each attempt without one is audited', async t => {
  const { factors, store } = await stageOf(t)
  const attempts: Array<() => Promise<unknown>> = [
    () => factors.begin(owner, { issuer: 'svc', actor }),
    () => factors.confirm(owner, { code: '000000', origin, actor })
  ]
  for (const attempt of attempts) {
    await t.rejects(attempt(), { code: 'no_session' })
    t.match(listAudit(store, { limit: 1 }), [{ action: 'second_factor.enrol', ok: false, target: 'tok_a' }])
  }
})

t.test('a removed second factor is not asked for', async t => {
  const { factors, enrol, store } = await stageOf(t)
  await enrol()
  await factors.remove(owner, actor)
  await factors.check(owner, { code: undefined, origin, actor })
  await t.rejects(factors.remove(owner, actor), { code: 'not_found' })
  await t.rejects(factors.confirm(owner, { code: '1', origin, ...inSession }), { code: 'factor_not_begun' })
  t.match(listAudit(store, { limit: 1 }), [{ action: 'second_factor.remove' }])
})

/** "12345678901234567890" in base32. */
const secret = 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ'

t.test('RFC 4226, appendix D', async t => {
  const codes = ['755224', '287082', '359152', '969429', '338314', '254676', '287922', '162583', '399871', '520489']
  for (const [step, code] of codes.entries()) t.equal(codeOf(secret, step), code)
})

t.test('RFC 6238, appendix B, last six digits', async t => {
  const cases: Array<[seconds: number, code: string]> = [
    [59, '287082'],
    [1111111109, '081804'],
    [1111111111, '050471'],
    [1234567890, '005924'],
    [2000000000, '279037'],
    [20000000000, '353130']
  ]
  for (const [seconds, code] of cases) {
    t.equal(codeOf(secret, Math.floor(seconds / 30)), code)
    t.equal(stepOf(code, { secret, nowMs: seconds * 1000, lastStep: 0 }), Math.floor(seconds / 30))
  }
})

t.test('a code is accepted one step early or late, and once', async t => {
  const nowMs = 1_000_000 * 30_000
  const at = (step: number, lastStep = 0) => stepOf(codeOf(secret, step), { secret, nowMs, lastStep })
  t.same(
    [-2, -1, 0, 1, 2].map(by => at(1_000_000 + by)),
    [null, 999_999, 1_000_000, 1_000_001, null]
  )
  t.equal(at(1_000_000, 1_000_000), null, 'it was used')
  t.equal(at(999_999, 1_000_000), null, 'an earlier one is not accepted either')
  t.equal(at(1_000_001, 1_000_000), 1_000_001)
  const spaced = codeOf(secret, 1_000_000).replace(/^(...)/, '$1 ')
  t.equal(stepOf(spaced, { secret, nowMs, lastStep: 0 }), 1_000_000)
  for (const wrong of ['', '12345', '1234567', 'abcdef', '١٢٣٤٥٦'])
    t.equal(stepOf(wrong, { secret, nowMs, lastStep: 0 }), null, wrong)
})

t.test('a secret has 160 bits, and its address is read by authenticators', async t => {
  const one = newSecret()
  t.match(one, /^[A-Z2-7]{32}$/)
  t.not(one, newSecret())
  const link = new URL(otpauthOf({ secret: one, account: 'Ana & Bob', issuer: 'svc deploy.example.com' }))
  t.equal(link.protocol, 'otpauth:')
  t.same(Object.fromEntries(link.searchParams), {
    secret: one,
    issuer: 'svc deploy.example.com',
    algorithm: 'SHA1',
    digits: '6',
    period: '30'
  })
  t.match(link.pathname, 'svc%20deploy.example.com:Ana%20%26%20Bob')
})

t.test('recovery codes are random, and typed in any way', async t => {
  const codes = newRecoveryCodes()
  t.equal(new Set(codes).size, 10)
  for (const code of codes) t.match(code, /^([a-z2-7]{4}-){3}[a-z2-7]{4}$/)
  t.equal(recoveryDigest('ABCD efgh-ijkl mnop'), recoveryDigest('abcd-efgh-ijkl-mnop'))
  t.not(recoveryDigest('abcd-efgh-ijkl-mnop'), recoveryDigest('abcd-efgh-ijkl-mnoq'))
})

t.test('a session counts as proven for some minutes', async t => {
  const clock = setClock()
  const state = { minutes: 15 }
  const proof = createProof({ clock, minutes: () => state.minutes })
  const provenAt = new Date(clock.now()).toISOString()
  proof.check(provenAt)
  t.ok(proof.isRecent(provenAt))
  t.equal(Date.parse(proof.until(provenAt) as string) - clock.now(), 15 * 60_000)
  clock.advance(15 * 60_000)
  t.throws(() => proof.check(provenAt), { kind: 'forbidden', code: 'proof_required' })
  t.throws(() => proof.check(null), { code: 'proof_required' }, 'a session of an earlier version')
  proof.check(undefined)
  t.same([proof.isRecent(provenAt), proof.isRecent(undefined)], [false, true])
  state.minutes = 0
  proof.check(provenAt)
  t.equal(proof.until(provenAt), null)
})
