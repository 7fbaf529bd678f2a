import t from 'tap'
import { createProof } from '../../lib/auth/proof.js'
import { setClock } from '../support/clock.js'

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
