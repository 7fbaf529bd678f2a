import t, { type Test } from 'tap'
import { createLimiter } from '../../lib/auth/limiter.js'
import { createSecondFactors } from '../../lib/auth/second-factor.js'
import { codeOf } from '../../lib/auth/totp.js'
import type { Request } from '../../lib/http/core/route.js'
import { listAudit } from '../../lib/store/tables/audit.js'
import { openStage } from '../support/store.js'

const actor = { name: 'token:ana', ip: '192.0.2.1' }
const owner = { id: 'tok_a', name: 'ana' }
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
  const limiter = createLimiter({ clock, onFailure: () => {} })
  const sealing = {
    seal: async (id: string, text: string) => `${id}:${text}`,
    unseal: async (id: string, text: string) => text.slice(id.length + 1)
  }
  const factors = createSecondFactors({ ...stage, limiter, sealing })
  const code = (secret: string) => codeOf(secret, Math.floor(clock.now() / 30_000))
  const enrol = async () => {
    const { secret } = await factors.begin(owner, 'svc')
    const recovery = await factors.confirm(owner, { code: code(secret), origin, actor })
    clock.advance(30_000)
    return { secret, recovery }
  }
  return { ...stage, factors, code, enrol }
}

t.test('an enrolment is in force when its first code has been given', async t => {
  const { factors, code, store } = await stageOf(t)
  await factors.check(owner, { code: undefined, origin, actor })
  const { secret, link } = await factors.begin(owner, 'svc host')
  t.match(link, `secret=${secret}`)
  await factors.check(owner, { code: undefined, origin, actor })
  await t.rejects(factors.confirm(owner, { code: '000000', origin, actor }), { code: 'wrong_code' })
  const recovery = await factors.confirm(owner, { code: code(secret), origin, actor })
  t.equal(recovery.length, 10)
  await t.rejects(factors.begin(owner, 'svc'), { code: 'factor_enrolled' })
  await t.rejects(factors.confirm(owner, { code: '1', origin, actor }), { code: 'factor_enrolled' })
  await t.rejects(factors.check(owner, { code: undefined, origin, actor }), { code: 'code_required' })
  const kept = JSON.stringify([store.all('SELECT * FROM secondFactors'), listAudit(store, { limit: 9 })])
  for (const text of recovery) t.notMatch(kept, text)
  t.match(listAudit(store, { limit: 1 }), [{ action: 'second_factor.enrol', target: 'tok_a', detail: 'ana' }])
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

t.test('a removed second factor is not asked for', async t => {
  const { factors, enrol, store } = await stageOf(t)
  await enrol()
  await factors.remove(owner, actor)
  await factors.check(owner, { code: undefined, origin, actor })
  await t.rejects(factors.remove(owner, actor), { code: 'not_found' })
  await t.rejects(factors.confirm(owner, { code: '1', origin, actor }), { code: 'factor_not_begun' })
  t.match(listAudit(store, { limit: 1 }), [{ action: 'second_factor.remove' }])
})
